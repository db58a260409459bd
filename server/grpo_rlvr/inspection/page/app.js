"use strict";
/* The reading: one row at a time, one key a verdict. A verdict shows the next row at once and is sent behind it. */

const $ = (id) => document.getElementById(id);
const { element } = Render;
const NAMES = { correct: "correct", wrong: "wrong", cannot_tell: "can’t tell" };
const PREFETCH = 3;
const RETRY_MS = 2000;
// Time beyond this on one row is taken for a break.
const IDLE_SECONDS = 300;

const state = {
  rows: [], at: 0, last: null, view: "welcome", open: false, shownAt: 0, pace: [],
  cache: new Map(), notes: new Map(), queue: [], sending: false,
};

function show(view) {
  state.view = view;
  for (const name of ["welcome", "reading", "summary"]) $(name).hidden = name !== view;
  $("verdicts").hidden = view !== "reading";
}

function problem(text) {
  $("problem").textContent = text || "";
  $("problem").hidden = !text;
}

const unread = () => state.rows.filter((row) => !row.verdict).length;
const readCount = () => state.rows.length - unread();

/* Rows: fetched once, the next ones ahead of time. */
function load(index) {
  const row = state.rows[index];
  if (!row) return Promise.resolve(null);
  if (!state.cache.has(row.row)) {
    const promise = transport.ask("row", { row: row.row });
    promise.catch(() => state.cache.delete(row.row));
    state.cache.set(row.row, promise);
  }
  return state.cache.get(row.row);
}

async function go(index) {
  if (index < 0 || index >= state.rows.length) return;
  state.at = index;
  state.open = false;
  show("reading");
  let content;
  try {
    content = await load(index);
  } catch (error) {
    return problem(error.message);
  }
  if (state.at !== index) return;
  const row = state.rows[index];
  // After a reload the row's own answer carries what was revealed before.
  if (content.revealed && !row.revealed && !row.touched) {
    row.revealed = content.revealed;
    row.looks = content.revealed.looks;
    if (!state.notes.has(row.row)) state.notes.set(row.row, content.revealed.note);
  }
  draw(content);
  for (let ahead = 1; ahead <= PREFETCH; ahead++) load(index + ahead).catch(() => {});
}

function draw(content) {
  const row = state.rows[state.at];
  Render.show($("prompt"), content.prompt, true);
  Render.show($("completion"), content.completion, state.open);
  $("length").textContent = "· " + content.completion.length.toLocaleString() + " characters";
  drawColumns(content.columns);
  const note = state.notes.get(row.row) || "";
  $("note").value = note;
  $("note-card").hidden = !note;
  for (const button of document.querySelectorAll("[data-verdict]")) {
    if (button.classList.contains("verdict")) button.setAttribute("aria-pressed", String(row.verdict === button.dataset.verdict));
  }
  drawReveal();
  drawBar();
  window.scrollTo(0, 0);
  state.shownAt = performance.now();
}

function drawColumns(columns) {
  const list = $("columns");
  list.replaceChildren();
  for (const [name, value] of Object.entries(columns)) {
    const shown = element("dd");
    Render.inline(shown, typeof value === "string" ? value : JSON.stringify(value, null, 1));
    list.append(element("dt", "", name), shown);
  }
  $("columns-card").hidden = !list.children.length;
}

function scoreText(revealed) {
  const parts = Object.entries(revealed.scores).map(([name, score]) => name + " " + (score === null ? "none" : +score.toFixed(3)));
  return parts.join(" · ");
}

function rewardSays(revealed) {
  if (revealed.rewarded === null) return "the reward gave no score";
  const made = revealed.source === "sample" ? "" : ", on an answer that the audit made";
  return "the reward says " + (revealed.rewarded ? "correct" : "wrong") + made;
}

/* The score of a row is shown once its verdict is given, above the next row. */
function drawReveal() {
  const line = $("reveal");
  const row = state.rows[state.at];
  const shown = row.verdict ? row : state.rows.find((one) => one.row === state.last);
  line.className = "reveal";
  line.textContent = "";
  if (!shown || !shown.revealed) return;
  const number = state.rows.indexOf(shown) + 1;
  const { revealed } = shown;
  const said = "Row " + number + ": you said " + NAMES[revealed.verdict];
  const reward = rewardSays(revealed);
  const end = revealed.agrees === false ? (row.verdict ? ". A slip? Give the verdict again." : ". A slip? U looks again.") : "";
  line.textContent = said + ", " + reward + " (" + scoreText(revealed) + ")" + end;
  line.classList.add(revealed.agrees === false ? "disagree" : row.verdict ? "again" : "agree");
}

function drawBar() {
  $("place").textContent = state.at + 1 + " / " + state.rows.length;
  const open = unread();
  const median = [...state.pace].sort((a, b) => a - b)[Math.floor(state.pace.length / 2)];
  const minutes = median ? Math.max(1, Math.round((open * median) / 60)) : 0;
  $("left").textContent = open ? open + " to read" + (minutes ? ", about " + minutes + " min" : "") : "all read";
  const map = $("map");
  if (map.children.length !== state.rows.length) {
    map.replaceChildren(...state.rows.map((_, index) => {
      const tick = element("button");
      tick.type = "button";
      tick.tabIndex = -1;
      tick.setAttribute("aria-label", "Row " + (index + 1));
      tick.addEventListener("click", () => go(index));
      return tick;
    }));
  }
  state.rows.forEach((row, index) => {
    const tick = map.children[index];
    if (row.verdict) tick.dataset.verdict = row.verdict;
    tick.setAttribute("aria-current", String(index === state.at));
  });
}

/* Verdicts. */
function token() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function judge(verdict) {
  const row = state.rows[state.at];
  const content = state.cache.get(row.row);
  if (!content) return;
  const seconds = Math.min(IDLE_SECONDS, (performance.now() - state.shownAt) / 1000);
  const note = $("note").value;
  state.notes.set(row.row, note);
  state.queue.push({
    row: row.row, verdict, note, seconds, look: (row.looks || (row.verdict ? 1 : 0)) + 1, token: token(),
  });
  if (!row.verdict) state.pace.push(seconds);
  row.looks = (row.looks || (row.verdict ? 1 : 0)) + 1;
  row.verdict = verdict;
  row.revealed = null;
  row.touched = true;
  state.last = row.row;
  send();
  const next = nextUnread(state.at);
  if (next === -1) finish();
  else go(next);
}

function nextUnread(from) {
  const order = state.rows.map((_, step) => (from + 1 + step) % state.rows.length);
  const found = order.find((index) => !state.rows[index].verdict);
  return found === undefined ? -1 : found;
}

/* One delivery at a time, in order; a delivery that fails is repeated with its own token, so none is doubled. */
async function send() {
  if (state.sending) return;
  state.sending = true;
  while (state.queue.length) {
    try {
      const answer = await transport.ask("verdict", state.queue[0]);
      state.queue.shift();
      problem("");
      const row = state.rows.find((one) => one.row === answer.row);
      row.revealed = answer.revealed;
      row.looks = answer.revealed.looks;
      if (state.view === "reading") drawReveal();
    } catch (error) {
      problem(state.queue.length + " not saved yet: " + error.message + " Trying again; keep this page open.");
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
  state.sending = false;
  if (state.view === "summary") summary();
}

function undo() {
  if (state.view === "summary") return go(state.rows.findIndex((row) => row.row === state.last));
  const at = state.rows.findIndex((row) => row.row === state.last);
  if (at >= 0) go(at);
}

/* The end: what the reading says, and the rows to look at again. */
function finish() {
  show("summary");
  drawBar();
  if (!state.queue.length) summary();
}

async function summary() {
  show("summary");
  $("summary-title").textContent = "Adding up …";
  let status;
  try {
    status = await transport.ask("status");
  } catch (error) {
    return problem(error.message);
  }
  const open = unread();
  $("summary-title").textContent = open ? readCount() + " of " + state.rows.length + " read" : "All read. Thank you.";
  const gate = $("summary-gate");
  gate.className = status.gate.open ? "open" : "closed";
  gate.textContent = status.gate.open ? "The gate is open: a run with these rewards may start."
    : "The gate is closed: " + status.gate.reasons.map((reason) => reason.message).join("; ") + ".";
  const { agreement } = status;
  const percent = (share) => (share ? Math.round(share.value * 100) + " %" : "–");
  const figures = [
    [percent(agreement.agreement), "agreement"], [agreement.false_positives, "paid but wrong"],
    [agreement.false_negatives, "right but not paid"], [agreement.kappa === null ? "–" : agreement.kappa.toFixed(2), "Cohen’s kappa"],
  ];
  $("summary-figures").replaceChildren(...figures.map(([value, label]) => {
    const box = element("div", "figure");
    box.append(element("b", "", String(value)), element("span", "", label));
    return box;
  }));
  drawDisagreements();
}

function drawDisagreements() {
  const list = $("summary-rows");
  list.replaceChildren();
  const found = state.rows.map((row, index) => ({ row, index })).filter(({ row }) => disagrees(row));
  if (found.length) list.append(element("h2", "", "A second look: " + found.length + " where you and the reward disagree"));
  for (const { row, index } of found) {
    const item = element("button", "item");
    item.type = "button";
    item.append(element("span", "what", "Row " + (index + 1) + ": you said " + NAMES[row.verdict]));
    const excerpt = element("span", "excerpt");
    load(index).then((content) => {
      excerpt.textContent = content.completion.slice(-300);
      const revealed = row.revealed || content.revealed;
      if (revealed) item.firstChild.textContent += ", " + rewardSays(revealed);
    }).catch(() => {});
    item.append(excerpt);
    item.addEventListener("click", () => go(index));
    list.append(item);
  }
}

const disagrees = (row) => (row.revealed ? row.revealed.agrees === false : row.agrees === false);

async function done() {
  try {
    await transport.ask("done");
    $("summary-title").textContent = "Saved. You can close this page.";
  } catch (error) {
    problem(error.message);
  }
}

/* Keys. */
const KEYS = {
  c: () => judge("correct"), 1: () => judge("correct"), w: () => judge("wrong"), 2: () => judge("wrong"),
  t: () => judge("cannot_tell"), 3: () => judge("cannot_tell"),
  u: undo, n: openNote, f: fold, g: () => openDialog("jump"), s: summary,
  arrowleft: () => go(state.at - 1), arrowright: () => go(state.at + 1), "?": () => openDialog("help"),
};

function openNote() {
  $("note-card").hidden = false;
  $("note").focus();
}

async function fold() {
  const content = await load(state.at);
  if (!Render.folds(content.completion)) return;
  state.open = !state.open;
  Render.show($("completion"), content.completion, state.open);
}

function openDialog(name) {
  $(name).showModal();
  if (name === "jump") {
    $("jump-number").value = "";
    $("jump-number").focus();
  }
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, textarea");
  if (event.key === "Escape" && typing && state.view === "reading") return event.target.blur();
  if (typing || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]") || state.view === "welcome") return;
  const key = event.key.toLowerCase();
  const always = ["?", "g", "s", "u", "arrowleft"].includes(key);
  if (!KEYS[key] || (state.view !== "reading" && !always)) return;
  event.preventDefault();
  KEYS[key]();
});

document.addEventListener("click", (event) => {
  const target = event.target.closest("button");
  if (!target) return;
  if (target.classList.contains("verdict")) judge(target.dataset.verdict);
  else if (target.dataset.unfold) fold();
  else if (target.dataset.close !== undefined) target.closest("dialog").close();
});

$("undo").addEventListener("click", undo);
$("note-button").addEventListener("click", openNote);
$("jump-button").addEventListener("click", () => openDialog("jump"));
$("help-button").addEventListener("click", () => openDialog("help"));
$("summary-back").addEventListener("click", () => go(Math.max(0, nextUnread(state.at))));
$("summary-done").addEventListener("click", done);
$("note").addEventListener("input", () => state.notes.set(state.rows[state.at].row, $("note").value));

/* Enter or a click, and no HTML form: a host's sandbox may forbid forms. */
function entered(field, button, action) {
  $(button).addEventListener("click", action);
  $(field).addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      action();
    }
  });
}

entered("jump-number", "jump-go", () => {
  $("jump").close();
  go(Number($("jump-number").value) - 1);
});
entered("reader-name", "reader-go", async () => {
  const kind = $("reader-oracle").checked ? "oracle" : "person";
  try {
    begin(await transport.ask("reader", { name: $("reader-name").value, kind }));
  } catch (error) {
    problem(error.message);
  }
});
window.addEventListener("beforeunload", (event) => {
  if (state.queue.length) event.preventDefault();
});

function begin(answer) {
  problem("");
  // A hidden field keeps the focus until the next frame is drawn, and keys typed into it are no verdicts.
  $("reader-name").blur();
  state.rows = answer.rows;
  const first = nextUnread(-1);
  if (first === -1) finish();
  else go(first);
}

async function start() {
  try {
    await transport.open();
    const answer = await transport.ask("state");
    $("welcome-rows").textContent = String(answer.rows.length);
    if (answer.reader) return begin(answer);
    state.rows = answer.rows;
    show("welcome");
    load(0).catch(() => {});
    $("reader-name").value = answer.suggested_name;
    $("reader-name").focus();
  } catch (error) {
    problem(error.message);
  }
}

start();
