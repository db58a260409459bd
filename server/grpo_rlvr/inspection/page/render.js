"use strict";
/* Showing text that a model wrote. Nothing here ever builds HTML from text: every piece becomes a text node. */

const Render = (() => {
  const FOLD_OVER = 2600;
  const HEAD = 1400;
  const TAIL = 800;
  // Longer texts are shown plain: highlighting them would cost more than it shows.
  const HIGHLIGHT_UP_TO = 60000;

  const WORDS = new Set(
    ("and as assert async await break case catch class const continue def del do elif else enum except export extends " +
      "false finally fn for from func function global if impl import in int is lambda let match new nonlocal None not " +
      "null or pass pub public raise return self static struct switch this throw True False true try type var void " +
      "while with yield").split(" "));
  const CODE = /("""[\s\S]*?"""|'''[\s\S]*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)|(#[^\n]*|\/\/[^\n]*|\/\*[\s\S]{0,4000}?\*\/)|(\b\d[\w.]*)|([A-Za-z_]\w*)/g;
  const JSONS = /("(?:\\.|[^"\\])*")|(-?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b)|(\b(?:true|false|null)\b)/g;
  const OBJECT = /\{(?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*\}/g;
  const COMMAND = /(\\[A-Za-z]+|\\.)/g;
  // Every repetition that may fail to close is bounded, so that no text takes more than a moment.
  // Math, tags, and characters that are not what they seem.
  const INLINE = /(\$\$[\s\S]{1,2000}?\$\$|\\\[[\s\S]{1,2000}?\\\]|\\\([\s\S]{1,2000}?\\\)|\$[^\s$](?:[^$\n]{0,200}?[^\s$\\])?\$(?!\d)|\\(?:boxed|fbox)\s*\{(?:[^{}]|\{[^{}]*\})*\})|(<\/?[A-Za-z][\w-]{0,30}>|<\|[^<>|]{1,40}\|>)|([\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]|\udb40[\udc00-\udc7f])|([A-Za-z]+[\u0370-\u03ff\u0400-\u04ff][\w\u0370-\u04ff]*|[\u0370-\u03ff\u0400-\u04ff]+[A-Za-z][\w\u0370-\u04ff]*)/g;

  function element(name, className, text) {
    const node = document.createElement(name);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  }

  /* Walk over the matches of a pattern; plain text between them goes through `plain`. */
  function scan(parent, text, pattern, plain, found) {
    let at = 0;
    for (const match of text.matchAll(pattern)) {
      if (match.index > at) plain(parent, text.slice(at, match.index));
      found(parent, match);
      at = match.index + match[0].length;
    }
    if (at < text.length) plain(parent, text.slice(at));
  }

  function bare(parent, text) {
    parent.append(document.createTextNode(text));
  }

  function code(parent, text) {
    scan(parent, text, CODE, bare, (to, [whole, string, comment, number, word]) => {
      if (string) to.append(element("span", "tok-string", string));
      else if (comment) to.append(element("span", "tok-comment", comment));
      else if (number) to.append(element("span", "tok-number", number));
      else if (WORDS.has(word)) to.append(element("span", "tok-word", word));
      else bare(to, whole);
    });
  }

  function json(parent, text) {
    scan(parent, text, JSONS, bare, (to, [, string, number, word]) => {
      if (string) to.append(element("span", "tok-string", string));
      else to.append(element("span", number ? "tok-number" : "tok-word", number || word));
    });
  }

  function isJson(text) {
    const trimmed = text.trim();
    if (!/^[[{]/.test(trimmed)) return false;
    try {
      JSON.parse(trimmed);
      return true;
    } catch {
      return false;
    }
  }

  function math(parent, text) {
    const boxed = /^\\(boxed|fbox)/.test(text);
    const node = element("span", boxed ? "math boxed" : "math");
    scan(node, text, COMMAND, bare, (to, [command]) => to.append(element("span", "command", command)));
    parent.append(node);
  }

  function odd(character) {
    const name = "U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    const node = element("span", "odd", name);
    node.title = "An invisible or controlling character stands here: " + name;
    return node;
  }

  function inline(parent, text) {
    scan(parent, text, INLINE, bare, (to, [, formula, tag, invisible, mixed]) => {
      if (formula) math(to, formula);
      else if (tag) to.append(element("span", "tag", tag));
      else if (invisible) to.append(odd(invisible));
      else {
        const node = element("span", "mixed", mixed);
        node.title = "Letters of two alphabets in one word";
        to.append(node);
      }
    });
  }

  /* Prose, with the JSON objects in it told apart: a tool call, or an answer that is asked for as JSON. */
  function prose(parent, text) {
    let at = 0;
    for (const match of text.matchAll(OBJECT)) {
      if (!match[0].includes('"') || !isJson(match[0])) continue;
      if (match.index > at) inline(parent, text.slice(at, match.index));
      const node = element("span", "json");
      json(node, match[0]);
      parent.append(node);
      at = match.index + match[0].length;
    }
    if (at < text.length) inline(parent, text.slice(at));
  }

  function block(parent, label, body) {
    const node = element("code", "code");
    node.dataset.lang = label || "text";
    if (label === "json" || isJson(body)) json(node, body);
    else code(node, body);
    parent.append(node);
  }

  /* Fenced blocks, whole JSON documents, and prose. */
  function rich(parent, text) {
    if (text.length > HIGHLIGHT_UP_TO) return bare(parent, text);
    if (isJson(text)) return block(parent, "json", text);
    // A fence may open in the middle of a line, as models do; it closes on a line of its own, or with the text.
    const fences = /(```|~~~)([\w+#.-]*[ \t]*)\n([\s\S]*?)(?:\n\1[ \t]*(?=\n|$)|$)/g;
    scan(parent, text, fences, prose, (to, [whole, fence, label, body]) => {
      to.append(element("span", "fence", fence + label));
      block(to, label.trim().toLowerCase(), body);
      if (whole.endsWith(fence)) to.append(element("span", "fence", fence));
    });
  }

  /* Show `text` in `parent`; a long one shows its beginning and its end around a button. */
  function show(parent, text, open) {
    parent.replaceChildren();
    if (text === "") parent.append(element("span", "empty", "(empty)"));
    else if (/^\s+$/.test(text)) parent.append(element("span", "empty", "(white space only: " + text.length + " characters)"));
    else if (open || text.length <= FOLD_OVER) rich(parent, text);
    else {
      rich(parent, text.slice(0, HEAD));
      const button = element("button", "fold", (text.length - HEAD - TAIL).toLocaleString() + " characters folded · show all (F)");
      button.type = "button";
      button.dataset.unfold = "true";
      parent.append(button);
      rich(parent, text.slice(-TAIL));
    }
  }

  function folds(text) {
    return text.length > FOLD_OVER;
  }

  return { show, folds, element, inline };
})();
