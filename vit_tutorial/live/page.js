// The page around the model: what a reader draws and changes, what the model answers, and where it looks.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const { config, classes } = data;
const [[H, W], [P, Q]] = [config.image_size, config.patch_size];
const [h, w, area] = [H / P, W / Q, H * W];
const places = Array.from({ length: h * w }, (_, n) => n);
const fromBase64 = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const model = loadModel(new Uint16Array(fromBase64(data.weights).buffer), data.shapes);
const blind = withoutPositions(model);

// Okabe and Ito's colours that are lighter than a sheet by the 0.3 that `Shapes` promises.
const COLOURS = { yellow: "#f0e442", "sky blue": "#56b4e9", pink: "#cc79a7", orange: "#e69f00", white: "#f4f4f4" };
const VIRIDIS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const untouched = { order: places, covered: [], positions: true, off: [] };
let state = { picture: null, strokes: [], colour: "yellow", ...untouched };
let result, plain, settled; // the answer now; without the changes; when the last change was done
let tool = "draw", grid = true, cursor = Math.floor((h * w) / 2), pinned = 0, query = 0, overlay = null;
let draft = null, pen = [0.25, 0.25], held = null, covering = true;
const past = [];

const $ = (id) => document.getElementById(id);
const percent = (share) => `${Math.round(100 * share)} %`;
const where = (n) => `row ${Math.floor(n / w)}, column ${n % w}`;
const best = (values) => values.indexOf(Math.max(...values));
const toggled = (list, item) => (list.includes(item) ? list.filter((each) => each !== item) : [...list, item]);

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

const context = (width, height) =>
  element("canvas", { width, height }).getContext("2d", { willReadFrequently: true });

// An empty ground as `Shapes` draws it: a dark colour, and three waves.
function newSheet() {
  const [random, turn] = [Math.random, 2 * Math.PI];
  const [dark, hue, chroma, tint] = [0.15 + 0.06 * random(), random(), random(), [random(), random(), random()]];
  const waves = [1, 2, 3].map(() => [turn * (1 + 5 * random()), turn * random(), turn * random()]);
  return Uint8Array.from({ length: 3 * area }, (_, i) => {
    const [c, y, x] = [Math.floor(i / area), Math.floor(i / W) % H, i % W];
    const height = ([frequency, direction, phase]) =>
      Math.sin((frequency * (Math.sin(direction) * y + Math.cos(direction) * x)) / Math.min(H, W) + phase);
    const wave = waves.reduce((sum, each) => sum + height(each), 0) / 3;
    const value = dark + chroma * dark * Math.cos(turn * (hue + c / 3)) + 0.24 * (tint[c] - 0.5) * wave;
    return 255 * Math.min(Math.max(value, 0), 1) + 0.5;
  });
}

// Fill the outlines with the colour. A pixel is mixed by the share of it that is inside, as in `Shapes`.
const fine = context(8 * W, 8 * H);
function paint(pixels, strokes, colour) {
  if (!strokes.length) return pixels;
  const outline = new Path2D();
  for (const stroke of strokes) {
    stroke.forEach(([x, y]) => outline.lineTo(8 * W * x, 8 * H * y));
    outline.closePath();
  }
  fine.clearRect(0, 0, 8 * W, 8 * H);
  fine.fill(outline, "evenodd");
  const drawn = fine.getImageData(0, 0, 8 * W, 8 * H).data;
  const inside = new Float32Array(area);
  for (let i = 0; i < 64 * area; i++)
    inside[(i >> 3) % W + W * Math.floor(i / (64 * W))] += drawn[4 * i + 3] / (255 * 64);
  const filled = [1, 3, 5].map((start) => parseInt(COLOURS[colour].slice(start, start + 2), 16));
  return pixels.map((value, i) => value + inside[i % area] * (filled[Math.floor(i / area)] - value) + 0.5);
}

function compute(strokes) {
  const { picture, colour, order, covered, positions, off } = state;
  const image = paint(picture, strokes, colour);
  const shown = rearrange(image, order, covered, config);
  const heads = {};
  for (const [layer, head] of off.map((name) => name.split("."))) (heads[layer] ??= []).push(Number(head));
  const start = performance.now();
  const { logits, maps } = visionTransformer(shown, positions ? model : blind, config, heads);
  result = { shown, maps, answers: logits.map((each) => Array.from(softmax(each))), took: performance.now() - start };
  result.answer = result.answers.at(-1);
  const changed = order !== places || covered.length || !positions || off.length;
  if (!changed) plain = { image, answer: result.answer };
  else if (plain.image.some((value, i) => value !== image[i]))
    plain = { image, answer: Array.from(softmax(visionTransformer(image, model, config).logits.at(-1))) };
}

function cost(before, after) {
  const [old, now] = [best(before), best(after)];
  const moved = `${classes[old]} ${percent(before[old])} → ${percent(after[old])}.`;
  return old === now ? moved : `${moved} Now it says ${classes[now]}, ${percent(after[now])}.`;
}

function set(next, words) {
  state = next;
  compute(state.strokes);
  $("status").textContent = settled ? `${words} ${cost(settled, result.answer)}` : words;
  settled = result.answer;
  show();
}

function change(words, next) {
  past.push(state);
  set({ ...state, ...next }, words);
}

function preview(outline) { // while an outline is drawn, once for every frame that the screen shows
  draft = outline;
  if (preview.waits) return;
  preview.waits = requestAnimationFrame(() => {
    preview.waits = null;
    compute(draft ? [...state.strokes, draft] : state.strokes);
    show();
  });
}

function finish(outline) {
  draft = null;
  cancelAnimationFrame(preview.waits);
  preview.waits = null;
  if (outline.length > 2) change("Outline drawn.", { strokes: [...state.strokes, outline] });
  else set(state, "An outline goes around something.");
}

function act(n) { // what the tool does to the patch in place n
  const patch = state.order[n];
  if (tool === "look") pinned = query = n + 1;
  if (tool === "cover" && state.covered.includes(patch) !== covering)
    return change(`${covering ? "Covered" : "Uncovered"} ${where(n)}.`, { covered: toggled(state.covered, patch) });
  if (tool === "exchange" && held !== null && held !== n) {
    const order = state.order.with(n, state.order[held]).with(held, patch);
    const words = `Exchanged ${where(held)} and ${where(n)}.`;
    held = null;
    return change(words, { order });
  }
  if (tool === "exchange") held = held === n ? null : n;
  show();
}

// ---- showing

const scale = Math.ceil(640 / Math.max(H, W));
const screen = Object.assign($("picture"), { width: scale * W, height: scale * H }).getContext("2d");
const small = context(W, H);

function toCanvas(target, pixels) { // bytes (3, H, W)
  const rgba = target.createImageData(target.canvas.width, target.canvas.height);
  const size = rgba.data.length / 4;
  for (let i = 0; i < size; i++) rgba.data.set([pixels[i], pixels[size + i], pixels[2 * size + i], 255], 4 * i);
  target.putImageData(rgba, 0, 0);
}

function frame(n, colour, dash = []) {
  const box = [(n % w) * Q * scale + 2, Math.floor(n / w) * P * scale + 2, Q * scale - 4, P * scale - 4];
  screen.setLineDash(dash);
  for (const [width, ink] of [[7, "#000"], [4, colour]])
    Object.assign(screen, { lineWidth: width, strokeStyle: ink }).strokeRect(...box);
  screen.setLineDash([]);
}

function showPicture() {
  toCanvas(small, result.shown);
  screen.imageSmoothingEnabled = false;
  screen.drawImage(small.canvas, 0, 0, scale * W, scale * H);
  const taken = overlay && result.maps[overlay[0]][overlay[1]][query].slice(1);
  for (const n of places) {
    const box = [(n % w) * Q * scale, Math.floor(n / w) * P * scale, Q * scale, P * scale];
    screen.fillStyle = taken ? `rgb(0 0 0 / ${0.85 * (1 - taken[n] / Math.max(...taken))})` : "transparent";
    screen.fillRect(...box);
    Object.assign(screen, { lineWidth: 1, strokeStyle: "rgb(255 255 255 / 0.4)" });
    if (grid) screen.strokeRect(...box);
  }
  if (query) frame(query - 1, "#f0e442");
  if (held !== null) frame(held, "#d55e00", [12, 8]);
  if (draft) {
    Object.assign(screen, { lineWidth: 3, strokeStyle: "#fff" }).beginPath();
    draft.forEach(([x, y]) => screen.lineTo(scale * W * x, scale * H * y));
    screen.stroke();
  }
  if (tool === "draw" && document.activeElement === screen.canvas && screen.canvas.matches(":focus-visible"))
    screen.strokeRect(scale * W * pen[0] - 8, scale * H * pen[1] - 8, 16, 16);
}

function showAnswer() {
  const { answer } = result;
  const ranked = classes.map((_, k) => k).sort((a, b) => answer[b] - answer[a]);
  [...$("bars").children].forEach((row, i) => {
    const k = classes.length > 12 ? ranked[i] : i;
    const [name, bar, value] = row.children;
    row.classList.toggle("first", k === ranked[0]);
    [name.textContent, value.textContent] = [classes[k], percent(answer[k])];
    bar.firstChild.style.width = `${100 * answer[k]}%`;
    bar.lastChild.style.left = `${100 * plain.answer[k]}%`;
    bar.title = `Without the changes: ${percent(plain.answer[k])}`;
  });
}

function showAttention() {
  $("query").textContent = `Where ${query ? where(query - 1) : "the class token"} looks`;
  result.maps.forEach((layer, l) => {
    const [title, heads] = $("blocks").children[l].children;
    const [now, k] = [result.answers[l], best(result.answers[l])];
    title.lastChild.textContent = `answer so far: ${classes[k]} ${percent(now[k])}`;
    layer.forEach((weights, head) => {
      const [button, row] = [heads.children[head], weights[query]];
      const [taken, on] = [row.slice(1), !state.off.includes(`${l}.${head}`)];
      const most = best(Array.from(taken));
      const colours = Array.from(taken, (x) => VIRIDIS[Math.round((4 * x) / taken[most])]);
      toCanvas(button.firstChild.getContext("2d"), [0, 1, 2].flatMap((c) => colours.map((colour) => colour[c])));
      button.lastChild.textContent = on ? `head ${head}` : "off";
      button.setAttribute("aria-pressed", on);
      const takes = `takes ${percent(row[0])} from the class token, ${percent(taken[most])} from ${where(most)}`;
      button.title = `Block ${l + 1}, head ${head}: ${takes}`;
      button.setAttribute("aria-label", button.title);
    });
  });
}

function show() {
  showPicture();
  showAnswer();
  showAttention();
  $("help").textContent = $(tool).dataset.help;
  $("undo").disabled = !past.length;
  for (const [id, on] of [["positions", state.positions], ["grid", grid]]) $(id).setAttribute("aria-pressed", on);
  [...$("colours").children].forEach((button) => button.setAttribute("aria-pressed", button.title === state.colour));
}

// ---- what the reader does

for (const name of Object.keys(COLOURS)) {
  const choose = () => change(`Drawn in ${name}.`, { colour: name });
  const button = element("button", { title: name, onclick: choose });
  button.style.background = COLOURS[name];
  $("colours").append(button);
}
const start = (words, picture) => change(words, { picture, strokes: [], ...untouched });
data.pictures.forEach(({ name, pixels }, i) => {
  const [thumbnail, bytes] = [context(W, H), fromBase64(pixels)];
  toCanvas(thumbnail, bytes);
  const title = `Picture ${i + 1}: ${name}`;
  $("photo").before(element("button", { title, ariaLabel: title, onclick: () => start(`${title}.`, bytes) }, thumbnail.canvas));
});
for (let i = 0; i < Math.min(classes.length, 12); i++) {
  const bar = element("span", { className: "bar" }, element("i"), element("b"));
  $("bars").append(element("li", {}, element("span"), bar, element("span")));
}
for (let l = 0; l < Object.keys(model.encoder).length; l++) {
  const heads = element("div", { className: "heads" });
  for (let head = 0; head < config.num_heads; head++) {
    const name = `${l}.${head}`;
    const over = (now) => () => { overlay = now; showPicture(); };
    const [onpointerenter, onfocus] = [over([l, head]), over([l, head])];
    const [onpointerleave, onblur] = [over(null), over(null)];
    const onclick = () => change(
      `Block ${l + 1}, head ${head} ${state.off.includes(name) ? "is on again" : "switched off"}.`, { off: toggled(state.off, name) });
    heads.append(element("button", { onclick, onpointerenter, onpointerleave, onfocus, onblur }, context(w, h).canvas, element("span")));
  }
  const title = element("h3", {}, `After block ${l + 1}`, element("span"));
  $("blocks").append(element("div", {}, title, heads));
}

const position = (event) => {
  const box = screen.canvas.getBoundingClientRect();
  const share = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  return share.map((value) => Math.min(Math.max(value, 0), 0.9999));
};
const patchAt = ([x, y]) => Math.floor(y * h) * w + Math.floor(x * w);
Object.assign(screen.canvas, {
  onpointerdown(event) {
    const [at, n] = [position(event), patchAt(position(event))];
    screen.canvas.setPointerCapture(event.pointerId);
    covering = !state.covered.includes(state.order[n]);
    if (tool === "draw") preview([at]);
    else act(n);
  },
  onpointermove(event) {
    const [at, n] = [position(event), patchAt(position(event))];
    if (tool === "draw") return draft && event.buttons && preview([...draft, at]);
    [cursor, query] = [n, n + 1];
    if (tool === "cover" && event.buttons) act(n);
    showPicture();
    showAttention();
  },
  onpointerup(event) {
    const n = patchAt(position(event));
    if (draft) finish(draft);
    else if (tool === "exchange" && held !== null && held !== n) act(n);
  },
  onpointercancel() { draft = null; preview(null); },
  onpointerleave() { query = pinned; show(); },
  onkeydown(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!step && ![" ", "Enter", "Escape"].includes(event.key)) return;
    event.preventDefault();
    if (tool === "draw") return drawByKey(event, step);
    const [x, y] = [(cursor % w) + (step?.[0] ?? 0), Math.floor(cursor / w) + (step?.[1] ?? 0)];
    if (x >= 0 && x < w && y >= 0 && y < h) cursor = y * w + x;
    query = cursor + 1;
    covering = !state.covered.includes(state.order[cursor]);
    if (step) show();
    else act(cursor);
  },
});
let corners = [];
function drawByKey(event, step) {
  if (step) pen = pen.map((value, i) => Math.min(Math.max(value + (event.shiftKey ? 1 / W : 1 / 14) * step[i], 0), 1));
  if (event.key === " ") corners.push(pen);
  const closed = event.key === "Enter" ? [...corners, pen] : null;
  if (closed || event.key === "Escape") corners = [];
  if (closed) finish(closed);
  else preview(corners.length ? [...corners, pen] : null);
}

for (const name of ["draw", "cover", "exchange", "look"])
  $(name).onchange = () => { [tool, held, draft] = [name, null, null]; show(); };
$("shuffle").onclick = () => {
  const order = state.order.map((n) => [Math.random(), n]).sort(([a], [b]) => a - b).map(([, n]) => n);
  change("Shuffled.", { order });
};
$("positions").onclick = () =>
  change(state.positions ? "Positions taken away." : "Positions are back.", { positions: !state.positions });
$("grid").onclick = () => { grid = !grid; show(); };
$("undo").onclick = () => set(past.pop(), "Undone.");
$("reset").onclick = () => change("All as it was.", untouched);
$("sheet").onclick = () => start("A new sheet.", newSheet());
$("class-token").onclick = () => { pinned = query = 0; show(); };
document.onkeydown = (event) => (event.ctrlKey || event.metaKey) && event.key === "z" && past.length && $("undo").click();

async function usePhoto(file) { // its centre, in the model's size, on white
  try {
    const photo = await createImageBitmap(file);
    const ratio = Math.min(photo.width / W, photo.height / H);
    const [width, height, paper] = [ratio * W, ratio * H, context(W, H)];
    Object.assign(paper, { fillStyle: "#fff", imageSmoothingQuality: "high" }).fillRect(0, 0, W, H);
    paper.drawImage(photo, (photo.width - width) / 2, (photo.height - height) / 2, width, height, 0, 0, W, H);
    const rgba = paper.getImageData(0, 0, W, H).data;
    start("Your photo.", Uint8Array.from({ length: 3 * area }, (_, i) => rgba[4 * (i % area) + Math.floor(i / area)]));
  } catch {
    $("status").textContent = `${file.name} is no picture that this browser can read.`;
  }
}
$("photo").onchange = (event) => event.target.files[0] && usePhoto(event.target.files[0]);
document.ondragover = (event) => event.preventDefault();
document.ondrop = (event) => { event.preventDefault(); usePhoto(event.dataTransfer.files[0]); };

// ---- the first picture

const opens = data.opensWith === null ? newSheet() : fromBase64(data.pictures[data.opensWith].pixels);
if (data.opensWith !== null) tool = "cover";
$(tool).checked = true;
$("sheet").hidden = !data.drawsShapes;
set({ ...state, picture: opens }, tool === "draw" ? "Draw a shape, and watch the bars while you draw." : "Cover a patch.");

if (window.frameElement) { // in a notebook: as dark as it is, and as high as the page
  const { jpThemeLight } = parent.document.body.dataset;
  if (jpThemeLight) document.documentElement.style.colorScheme = jpThemeLight === "true" ? "light" : "dark";
  const fit = () => (frameElement.style.height = `${document.documentElement.offsetHeight}px`);
  new ResizeObserver(fit).observe(document.documentElement);
}
