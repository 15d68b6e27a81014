// The forward pass of vit_tutorial, for one picture: patchify, Eqs. 1 to 4, logits.
// Tokens are an array of T vectors, each a Float32Array of D values. `model` has the tensors of `model.state_dict()`
// where their names say: model.encoder[0].attention.qkv.weight. `config` has the fields of ViTConfig that matter here,
// with both sizes as pairs, and the card's mean and std. An image is bytes, (C, H, W), as in an ImageSet.

// Where value i of patch n is in the image: patches row by row, and inside a patch (channel, row, column).
function indices({ image_size: [H, W], patch_size: [P, Q], mean }) { // (N, C·P·Q)
  return Array.from({ length: (H * W) / (P * Q) }, (_, n) => {
    const [top, left] = [Math.floor(n / (W / Q)) * P, (n % (W / Q)) * Q];
    return Array.from({ length: mean.length * P * Q }, (_, i) => {
      const [c, row, column] = [Math.floor(i / (P * Q)), Math.floor(i / Q) % P, i % Q];
      return (c * H + top + row) * W + left + column;
    });
  });
}

function patchify(image, config) { // (C, H, W) → (N, C·P·Q)
  return indices(config).map((patch) => Float32Array.from(patch, (i) => image[i]));
}

function unpatchify(patches, config) { // (N, C·P·Q) → (C, H, W)
  const image = new Uint8Array(patches.length * patches[0].length);
  indices(config).forEach((patch, n) => patch.forEach((place, i) => (image[place] = patches[n][i])));
  return image;
}

// Put patch order[n] in place n, and the mean colour of the training images over those that are covered.
function rearrange(image, order, covered, config) { // (C, H, W) → (C, H, W)
  const patches = patchify(image, config);
  const area = patches[0].length / config.mean.length;
  const cover = patches[0].map((_, i) => Math.round(255 * config.mean[Math.floor(i / area)]));
  return unpatchify(order.map((n) => (covered.includes(n) ? cover : patches[n])), config);
}

function normalise(image, { mean, std }) { // bytes → mean 0 and standard deviation 1
  const area = image.length / mean.length;
  return Float32Array.from(image, (value, i) => {
    const c = Math.floor(i / area);
    return (value / 255 - mean[c]) / (std[c] || 1); // a channel that was constant is only moved
  });
}

function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

function linear(tokens, { weight, bias }) { // (T, in) → (T, out)
  return tokens.map((token) => bias.map((start, o) => start + dot(weight[o], token)));
}

function layerNorm(tokens, { weight, bias }, eps) { // (T, D) → (T, D)
  return tokens.map((token) => {
    let [mean, variance] = [0, 0];
    for (const x of token) mean += x / token.length;
    for (const x of token) variance += (x - mean) ** 2 / token.length;
    return token.map((x, i) => ((x - mean) / Math.sqrt(variance + eps)) * weight[i] + bias[i]);
  });
}

const add = (tokens, others) => tokens.map((token, t) => token.map((x, i) => x + others[t][i]));

function softmax(logits) {
  const largest = Math.max(...logits);
  const powers = logits.map((logit) => Math.exp(logit - largest));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}

function erf(x) { // within 1.5e-7: Abramowitz and Stegun, 7.1.26
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(x) * (1 - series * Math.exp(-x * x));
}

const GELUS = {
  exact: (x) => (x * (1 + erf(x / Math.SQRT2))) / 2,
  tanh: (x) => (x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)))) / 2,
};

function embeddings(image, { patches, class_token, position }, config) { // Eq. 1: (C, H, W) → (1+N, D)
  const tokens = linear(patchify(normalise(image, config), config), patches.projection); // (N, D)
  return add([...class_token, ...tokens], position.table);
}

function attend(q, k, v) { // softmax(q kᵀ / √d) v: (T, d) each → mixed values (T, d), weights (T, T)
  const root = Math.sqrt(q[0].length);
  const weights = q.map((query) => softmax(k.map((key) => dot(query, key) / root)));
  const mixed = weights.map((row) => {
    const out = new Float32Array(v[0].length);
    v.forEach((value, s) => value.forEach((x, i) => (out[i] += row[s] * x)));
    return out;
  });
  return [mixed, weights];
}

// `off` lists the heads that add nothing, whose values are set to zero. The weights of each head are pushed to `maps`.
function selfAttention(tokens, { qkv, projection }, num_heads, off, maps) { // Eqs. 5–8: (T, D) → (T, D)
  const d = tokens[0].length / num_heads;
  const rows = linear(tokens, qkv); // (T, 3·D)
  const split = (part, head) => rows.map((row) => row.subarray((part * num_heads + head) * d).subarray(0, d));
  const merged = tokens.map((token) => new Float32Array(token.length));
  for (let head = 0; head < num_heads; head++) {
    const [q, k, v] = [split(0, head), split(1, head), split(2, head)]; // (T, d) each
    const [mixed, weights] = attend(q, k, off.includes(head) ? v.map((value) => value.map(() => 0)) : v);
    mixed.forEach((value, t) => merged[t].set(value, head * d));
    maps.push(weights);
  }
  return linear(merged, projection);
}

function mlp(tokens, { expand, contract }, gelu) { // (T, D) → (T, mlp_dim) → (T, D)
  return linear(linear(tokens, expand).map((hidden) => hidden.map(GELUS[gelu])), contract);
}

function encoderBlock(z, block, config, off, maps) { // (T, D) → (T, D)
  const { norm_eps: eps, num_heads, gelu } = config;
  z = add(z, selfAttention(layerNorm(z, block.norm1, eps), block.attention, num_heads, off, maps)); // Eq. 2
  return add(z, mlp(layerNorm(z, block.norm2, eps), block.mlp, gelu)); // Eq. 3
}

// `off` has the heads that are off, by layer. Returned: logits after each block; maps[layer][head][i][j], as i sees j.
function visionTransformer(image, model, config, off = {}) {
  const [logits, maps] = [[], []];
  let z = embeddings(image, model.embeddings, config); // Eq. 1: (1+N, D)
  Object.values(model.encoder).forEach((block, layer) => {
    maps.push([]);
    z = encoderBlock(z, block, config, off[layer] ?? [], maps[layer]); // Eqs. 2–3: (1+N, D)
    const [y] = layerNorm(z, model.norm, config.norm_eps); // Eq. 4: the class token, (D)
    logits.push(linear([y], model.head)[0]); // (K)
  });
  return { logits, maps };
}

function fromHalf(bits) { // one value in half precision, given as its 16 bits
  const [sign, exponent, fraction] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}

// All tensors one after another, and the shape of each under its name. A matrix becomes an array of rows.
function loadModel(halves, shapes) {
  const model = {};
  const values = Float32Array.from(halves, fromHalf);
  let start = 0;
  for (const [name, [count, ...sizes]] of Object.entries(shapes)) {
    const path = name.split(".");
    const length = sizes.reduce((product, size) => product * size, 1);
    const rows = Array.from({ length: count }, (_, i) => values.subarray(start + i * length, start + (i + 1) * length));
    const last = path.pop();
    const part = path.reduce((owner, key) => (owner[key] ??= {}), model);
    part[last] = sizes.length ? rows : values.subarray(start, start + count);
    start += count * length;
  }
  return model;
}

function withoutPositions(model) { // the same weights, and a table of zeros
  const table = model.embeddings.position.table.map((row) => row.map(() => 0));
  return { ...model, embeddings: { ...model.embeddings, position: { table } } };
}
