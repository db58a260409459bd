"use strict";
/* How the page asks its server: HTTP on loopback, or tool calls through the host of an MCP App. */

class Refused extends Error {}
class Unreachable extends Error {}

/* Longer than this no answer to a delivery is waited for; it is sent again with its own token. */
const PATIENCE_MS = 30000;

class HttpTransport {
  async open() {
    const ticket = location.hash.slice(1);
    await this.ask("session", { ticket });
    // The ticket is used up; it has no place in the history.
    history.replaceState(null, "", location.pathname);
  }

  async ask(action, payload) {
    let response;
    try {
      response = await fetch("/api/" + action, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(payload || {}),
        signal: AbortSignal.timeout(PATIENCE_MS),
      });
    } catch {
      throw new Unreachable("The reading page's server does not answer.");
    }
    const answer = await response.json();
    if (!response.ok) throw new Refused(answer.error || "The server refused.");
    return answer;
  }
}

/* A small client of the MCP Apps page protocol: JSON-RPC over postMessage. */
class AppTransport {
  constructor() {
    this.next = 1;
    this.patience = PATIENCE_MS;
    this.waiting = new Map();
    this.given = new Promise((resolve) => (this.receive = resolve));
    window.addEventListener("message", (event) => {
      if (event.source === window.parent) this.take(event.data);
    });
  }

  take(message) {
    if (!message || message.jsonrpc !== "2.0") return;
    if (message.method === "ui/notifications/tool-result") this.receive(message.params);
    const entry = this.waiting.get(message.id);
    if (!entry || message.method) return;
    this.waiting.delete(message.id);
    if (message.error) entry.fail(new Refused(message.error.message));
    else entry.done(message.result);
  }

  request(method, params) {
    const id = this.next++;
    return new Promise((done, fail) => {
      this.waiting.set(id, { done, fail });
      window.parent.postMessage({ jsonrpc: "2.0", id, method, params }, "*");
    });
  }

  within(promise) {
    const late = new Promise((_, fail) => {
      setTimeout(() => fail(new Unreachable("The host does not answer.")), this.patience);
    });
    return Promise.race([promise, late]);
  }

  async open() {
    await this.request("ui/initialize", {
      protocolVersion: "2026-01-26",
      appInfo: { name: "grpo-rlvr reading", version: "1" },
      appCapabilities: {},
    });
    window.parent.postMessage({ jsonrpc: "2.0", method: "ui/notifications/initialized" }, "*");
    const result = await this.given;
    // The ticket travels in the result's metadata, which hosts hand to the page and not to the model.
    this.ticket = (result._meta || {})["grpo-rlvr/ticket"];
    if (!this.ticket) throw new Refused("This result opens no reading. Start the reading again.");
  }

  /* A host may ask a person before it passes a call on, so only a delivery, which repeats safely, is given up. */
  async ask(action, payload) {
    const asked = this.request("tools/call", {
      name: "reading_page",
      arguments: { ticket: this.ticket, action, payload: JSON.stringify(payload || {}) },
    });
    const result = await (action === "verdict" ? this.within(asked) : asked);
    const text = (result.content || []).map((part) => part.text || "").join("");
    if (result.isError) throw new Refused(text);
    return result.structuredContent || JSON.parse(text);
  }
}

const transport = document.documentElement.dataset.host === "app" ? new AppTransport() : new HttpTransport();
