// The page around the model: what a reader draws and changes, what the model answers, and where it looks.

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const { config, classes } = data;
const [[H, W], [P, Q]] = [config.image_size, config.patch_size];
const [h, w, area] = [H / P, W / Q, H * W];
const places = Array.from({ length: h * w }, (_, n) => n);
const fromBase64 = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const model = loadModel(new Uint16Array(fromBase64(data.weights).buffer), data.shapes);
const blind = withoutPositions(model);

const past = []; // the states before each change, for undo
const untouched = { order: places, covered: [], positions: true, off: [] };
let state = { picture: null, sheet: false, strokes: [], colour: [240, 228, 66], ...untouched };
let result, plain, settled; // the answer now; without the changes; when the last change was done
let tool = data.opensEmpty ? "draw" : "cover";
let grid = true; // edges of the patches are drawn
let cursor = Math.floor((h * w) / 2); // the patch that the pointer or the arrow keys are on
let query = 0; // the token whose attention is shown: the class token, or patch n as n + 1
let pinned = 0; // the query that stays when the pointer leaves
let covering = true; // a drag covers patches, and does not uncover them
let held = null; // the patch that the next one changes places with
let draft = null; // the outline that is being drawn
let pen = [0.25, 0.25]; // by keys: where it is, as shares of width and height,
let corners = []; // and the corners of the outline so far

const percent = (share) => `${Math.round(100 * share)}\u00a0%`;
const where = (n) => `row ${Math.floor(n / w)}, column ${n % w}`;
const best = (values) => values.indexOf(Math.max(...values));
const toggled = (list, item) => (list.includes(item) ? list.filter((each) => each !== item) : [...list, item]);
const within = (value, low, high) => Math.min(Math.max(value, low), high);

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

const context = (width, height) => element("canvas", { width, height }).getContext("2d", { willReadFrequently: true });

// ---- a picture, as bytes (3, H, W)

// An empty ground as `Shapes` draws it: a dark colour, and three waves.
function newSheet() {
  const { random } = Math;
  const turn = 2 * Math.PI;
  const dark = 0.15 + 0.06 * random();
  const [hue, chroma, ...tint] = [random(), random(), random(), random(), random()];
  const waves = [1, 2, 3].map(() => [turn * (1 + 5 * random()), turn * random(), turn * random()]);
  return Uint8Array.from({ length: 3 * area }, (_, i) => {
    const [c, y, x] = [Math.floor(i / area), Math.floor(i / W) % H, i % W];
    const heights = waves.map(([frequency, direction, phase]) =>
      Math.sin((frequency * (Math.sin(direction) * y + Math.cos(direction) * x)) / Math.min(H, W) + phase));
    const wave = heights.reduce((sum, height) => sum + height / 3, 0);
    const value = dark + chroma * dark * Math.cos(turn * (hue + c / 3)) + 0.24 * (tint[c] - 0.5) * wave;
    return 255 * within(value, 0, 1) + 0.5;
  });
}

// Fill the outlines with the colour. A pixel is mixed by the share of it that is inside, as in `Shapes`.
const fine = context(8 * W, 8 * H);
function paint(pixels, strokes, colour) {
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
  return pixels.map((value, i) => value + inside[i % area] * (colour[Math.floor(i / area)] - value) + 0.5);
}

async function usePhoto(file) { // its centre, in the model's size, on white
  const photo = await createImageBitmap(file).catch(() => null);
  if (!photo) return ($("status").textContent = "That is no picture that this browser can read.");
  const paper = context(W, H);
  const ratio = Math.min(photo.width / W, photo.height / H);
  const [left, top] = [(photo.width - ratio * W) / 2, (photo.height - ratio * H) / 2];
  Object.assign(paper, { fillStyle: "#fff", imageSmoothingQuality: "high" }).fillRect(0, 0, W, H);
  paper.drawImage(photo, left, top, ratio * W, ratio * H, 0, 0, W, H);
  const rgba = paper.getImageData(0, 0, W, H).data;
  start("Your photo.", Uint8Array.from({ length: 3 * area }, (_, i) => rgba[4 * (i % area) + Math.floor(i / area)]));
}

// ---- what a change does

function compute(strokes) {
  const { picture, colour, order, covered, positions, off } = state;
  const image = paint(picture, strokes, colour);
  const begin = performance.now();
  const heads = {}; // those that are off, by layer
  for (const { layer, head } of off) (heads[layer] ??= []).push(head);
  const shown = rearrange(image, order, covered, config);
  const { logits, maps } = visionTransformer(shown, positions ? model : blind, config, heads);
  const answers = logits.map((each) => Array.from(softmax(each))); // after each block
  result = { shown, maps, answers, answer: answers.at(-1), took: performance.now() - begin };
  if (order === places && !covered.length && positions && !off.length) plain = { image, answer: result.answer };
  else if (plain.image.some((value, i) => value !== image[i]))
    plain = { image, answer: Array.from(softmax(visionTransformer(image, model, config).logits.at(-1))) };
}

const isEmpty = () => state.sheet && !state.strokes.length && !draft; // nothing is drawn, so nothing is answered

function set(next, words) {
  const before = next.picture === state.picture ? settled : null; // another picture costs nothing
  state = next;
  compute(state.strokes);
  const now = isEmpty() ? null : result.answer;
  $("status").textContent = words + (now ? compared(before, now) : "");
  settled = now;
  show();
}

function compared(before, now) {
  const says = `${classes[best(now)]}, ${percent(Math.max(...now))}.`;
  if (!before) return ` It says ${says}`;
  const old = best(before);
  const instead = old === best(now) ? "" : ` Now it says ${says}`;
  return ` ${classes[old]} ${percent(before[old])} → ${percent(now[old])}.${instead}`;
}

function change(words, next) {
  past.push(state);
  set({ ...state, ...next }, words);
}

const start = (words, picture, sheet = false) =>
  change(words, { picture, sheet, strokes: [], order: places, covered: [] });

function preview(outline) { // while an outline is drawn
  draft = outline;
  compute(draft ? [...state.strokes, draft] : state.strokes);
  show();
}

function finish(outline) {
  draft = null;
  if (outline.length < 3) return set(state, "An outline goes around something.");
  change("Outline drawn.", { strokes: [...state.strokes, outline] });
}

function act() { // what the tool does to the patch under the cursor
  const n = cursor;
  const patch = state.order[n];
  if (tool === "look") pinned = query = n + 1;
  if (tool === "cover" && state.covered.includes(patch) !== covering)
    change(`${covering ? "Covered" : "Uncovered"} ${where(n)}.`, { covered: toggled(state.covered, patch) });
  if (tool === "swap") {
    const swapped = held === null ? null : state.order.with(n, state.order[held]).with(held, patch);
    if (swapped && held !== n) change(`Swapped ${where(held)} and ${where(n)}.`, { order: swapped });
    held = held === null ? n : null;
  }
  show();
}

// ---- what is shown

const scale = Math.ceil(640 / Math.max(H, W));
const screen = Object.assign($("picture"), { width: scale * W, height: scale * H }).getContext("2d");

function drawPixels(target, pixels, width, size) { // bytes (3, height, width), each a square of this size
  const count = pixels.length / 3;
  for (let i = 0; i < count; i++) {
    target.fillStyle = `rgb(${pixels[i]} ${pixels[count + i]} ${pixels[2 * count + i]})`;
    target.fillRect((i % width) * size, Math.floor(i / width) * size, size, size);
  }
}

function frame([x, y, width, height], colour) { // edged in black
  for (const [lineWidth, strokeStyle] of [[9, "#000"], [5, colour]])
    Object.assign(screen, { lineWidth, strokeStyle }).strokeRect(x + 4, y + 4, width - 8, height - 8);
}

function dim(boxes) { // all patches but those that the query takes most from, over all heads
  const rows = result.maps.flat().map((map) => map[query]);
  const taken = places.map((n) => rows.reduce((sum, row) => sum + row[n + 1], 0));
  boxes.forEach((box, n) => {
    screen.fillStyle = `rgb(0 0 0 / ${0.75 * (1 - taken[n] / Math.max(...taken))})`;
    screen.fillRect(...box);
  });
}

function showPicture() {
  drawPixels(screen, result.shown, W, scale);
  const boxes = places.map((n) => [(n % w) * Q, Math.floor(n / w) * P, Q, P].map((length) => length * scale));
  Object.assign(screen, { lineWidth: 1, strokeStyle: "rgb(255 255 255 / 0.4)" });
  if (grid) boxes.forEach((box) => screen.strokeRect(...box));
  if (tool === "look") dim(boxes);
  if (query) frame(boxes[query - 1], "#f0e442");
  if (held !== null) frame(boxes[held], "#d55e00");
  if (tool === "draw" && screen.canvas.matches(":focus-visible"))
    frame([scale * W * pen[0] - 12, scale * H * pen[1] - 12, 24, 24], "#f0e442");
  Object.assign(screen, { lineWidth: 3, strokeStyle: "#fff" }).beginPath();
  draft?.forEach(([x, y]) => screen.lineTo(scale * W * x, scale * H * y));
  screen.stroke();
}

function showAnswer() {
  const { answer } = result;
  const empty = isEmpty();
  $("legend").style.visibility = empty || plain.answer === answer ? "hidden" : "";
  const ranked = classes.map((_, k) => k).sort((a, b) => answer[b] - answer[a]);
  [...$("bars").children].forEach((row, i) => {
    const k = classes.length > 12 ? ranked[i] : i;
    const [name, bar, value] = row.children;
    row.classList.toggle("first", !empty && k === ranked[0]);
    name.textContent = classes[k];
    value.textContent = empty ? "–" : percent(answer[k]);
    bar.firstChild.style.width = empty ? 0 : `${100 * answer[k]}%`;
    bar.lastChild.style.left = `${100 * plain.answer[k]}%`;
    bar.lastChild.hidden = empty || plain.answer === answer;
  });
}

function showAttention() {
  $("query").textContent = `Where ${query ? where(query - 1) : "the class token"} looks`;
  for (const entry of entries) {
    const { layer, head, title, button, name } = entry;
    const weights = result.maps[layer][head][query];
    const answer = result.answers[layer];
    const taken = Array.from(weights.slice(1));
    const most = best(taken);
    const on = !state.off.includes(entry);
    const blues = [86, 180, 233].flatMap((blue) => taken.map((share) => Math.round((blue * share) / taken[most])));
    drawPixels(button.firstChild.getContext("2d"), blues, w, 1);
    title.textContent = isEmpty() ? "" : `answer after it: ${classes[best(answer)]} ${percent(Math.max(...answer))}`;
    button.lastChild.textContent = on ? `head ${head}` : "off";
    button.ariaPressed = on;
    button.title = `${name}: ${percent(weights[0])} from the class token, ${percent(taken[most])} from ${where(most)}`;
  }
}

function show() {
  showPicture();
  showAnswer();
  showAttention();
  $("help").textContent = $(tool).dataset.help;
  [$("colour").textContent] = colours.find(([, colour]) => String(colour) === String(state.colour));
  screen.canvas.ariaLabel = `The picture; ${where(cursor)} of ${h}×${w} patches`;
  $("undo").disabled = !past.length;
  $("class-token").disabled = !pinned;
  $("positions").ariaPressed = state.positions;
  $("grid").ariaPressed = grid;
}

// ---- what the reader does

const entries = Object.keys(model.encoder).flatMap((layer) => {
  const title = element("span");
  const heads = element("div", { className: "heads" });
  $("blocks").append(element("div", {}, element("h3", {}, `Block ${layer}`, title), heads));
  return Array.from({ length: config.num_heads }, (_, head) => {
    const button = element("button", {}, context(w, h).canvas, element("span"));
    const entry = { layer, head, title, button, name: `Block ${layer}, head ${head}` };
    const words = () => `${entry.name} ${state.off.includes(entry) ? "on" : "off"}.`;
    button.onclick = () => change(words(), { off: toggled(state.off, entry) });
    heads.append(button);
    return entry;
  });
});

for (const _ of classes.slice(0, 12)) {
  const bar = element("span", { className: "bar" }, element("i"), element("b"));
  $("bars").append(element("li", {}, element("span"), bar, element("span")));
}

data.pictures.forEach(({ name, pixels }, i) => {
  const thumbnail = context(W, H);
  const bytes = fromBase64(pixels);
  const title = `Picture ${i + 1}: ${name}`;
  drawPixels(thumbnail, bytes, W, 1);
  $("photo").before(element("button", { title, onclick: () => start(`${title}.`, bytes) }, thumbnail.canvas));
});

const colours = [...$("colours").querySelectorAll("button")].map((button) => {
  const colour = button.style.backgroundColor.match(/\d+/g).map(Number);
  button.onclick = () => change(`Drawn in ${button.title}.`, { colour });
  return [button.title, colour];
});

for (const input of document.getElementsByName("tool"))
  input.onchange = () => {
    tool = input.id;
    held = null;
    corners = [];
    preview(null);
  };

const clicks = {
  shuffle: () => {
    const keys = places.map(Math.random);
    change("Shuffled.", { order: state.order.toSorted((a, b) => keys[a] - keys[b]) });
  },
  positions: () => change(`Positions ${state.positions ? "off" : "on"}.`, { positions: !state.positions }),
  grid: () => (grid = !grid),
  undo: () => set(past.pop(), "Undone."),
  reset: () => change("All as it was.", { strokes: [], ...untouched }),
  sheet: () => start("A new sheet.", newSheet(), true),
  "class-token": () => (pinned = query = 0),
};
for (const [id, click] of Object.entries(clicks)) {
  $(id).onclick = click;
  $(id).addEventListener("click", show);
}

function point({ offsetX, offsetY }) { // where the pointer is, from 0 to 1, and on which patch
  const x = within(offsetX / screen.canvas.clientWidth, 0, 0.9999);
  const y = within(offsetY / screen.canvas.clientHeight, 0, 0.9999);
  return { at: [x, y], n: Math.floor(y * h) * w + Math.floor(x * w) };
}

function press() {
  covering = !state.covered.includes(state.order[cursor]);
  act();
}

screen.canvas.onpointerdown = (event) => {
  const { at, n } = point(event);
  screen.canvas.setPointerCapture(event.pointerId);
  if (tool === "draw") return preview([at]);
  [cursor, query] = [n, n + 1];
  press();
};
screen.canvas.onpointermove = (event) => {
  const { at, n } = point(event);
  if (tool === "draw" && draft && event.buttons) preview([...draft, at]);
  if (tool === "draw" || cursor === n && query === n + 1) return;
  [cursor, query] = [n, n + 1];
  if (tool === "cover" && event.buttons) act();
  else show();
};
screen.canvas.onpointerup = () => {
  if (draft) finish(draft);
  else if (held !== null && held !== cursor) act(); // dragged there
};
screen.canvas.onpointercancel = () => preview(null);
screen.canvas.onpointerleave = () => {
  query = pinned;
  show();
};

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
screen.canvas.onkeydown = (event) => {
  const { key } = event;
  const [right, down] = ARROWS[key] ?? [0, 0];
  if (!ARROWS[key] && ![" ", "Enter", "Escape"].includes(key)) return;
  event.preventDefault();
  const step = event.shiftKey ? 1 / 28 : 1 / 14;
  if (tool === "draw") return drawByKey(key, step * right, step * down);
  cursor = within(Math.floor(cursor / w) + down, 0, h - 1) * w + within((cursor % w) + right, 0, w - 1);
  query = cursor + 1;
  if (key === " " || key === "Enter") press();
  else show();
};

function drawByKey(key, right, down) {
  pen = [within(pen[0] + right, 0, 1), within(pen[1] + down, 0, 1)];
  const outline = [...corners, pen];
  corners = { " ": outline, Enter: [], Escape: [] }[key] ?? corners;
  if (key === "Enter") finish(outline);
  else preview(corners.length ? outline : null);
}

document.onkeydown = (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "z") $("undo").click();
};
$("photo").onchange = (event) => usePhoto(event.target.files[0]);
document.ondragover = document.ondrop = (event) => {
  event.preventDefault();
  if (event.type === "drop") usePhoto(event.dataTransfer.files[0]);
};

$(tool).checked = true;
$("sheet").hidden = !data.drawsShapes;
const kind = data.drawsShapes ? "shapes" : "classes";
const named = classes.length > 12 ? "" : `: ${classes.slice(0, -1).join(", ")} or ${classes.at(-1)}`;
$("about").textContent =
  `It cuts a picture of ${H}×${W} pixels into ${h * w} patches, and says which of ${classes.length} ${kind} it shows${named}.`;
const sheet = tool === "draw";
const first = sheet ? newSheet() : fromBase64(data.pictures[0].pixels);
set({ ...state, picture: first, sheet }, sheet ? "An empty sheet. Draw a shape, and watch the bars." : "Cover a patch. What does it cost?");

if (window.frameElement) { // in a notebook or a web page: as high as the page, and as dark as what is around it
  const root = document.documentElement;
  const around = [parent.document.documentElement, parent.document.body];
  const [{ dataset: sphinx }, { dataset: jupyterlab }] = around;
  const match = () =>
    (root.style.colorScheme = sphinx.theme || { true: "light", false: "dark" }[jupyterlab.jpThemeLight] || "light dark");
  const watch = new MutationObserver(match);
  for (const element of around) watch.observe(element, { attributeFilter: ["data-theme", "data-jp-theme-light"] });
  match();
  new ResizeObserver(() => (frameElement.style.height = `${root.offsetHeight}px`)).observe(root);
}
