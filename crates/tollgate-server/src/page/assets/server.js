// Asking the server. The token is kept for this tab alone, and sent in a header and nowhere else.

const BASE = "/admin/v1/";
const TOKEN = "tollgate-token";
// Events come every second: after so long without one nobody is there.
const SILENCE = 5000;
const FIRST_WAIT = 500;
const LONGEST_WAIT = 10000;

/** Why something was not answered. `status` is 0 where there was no answer at all. */
export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export const session = {
  /** Who is here: `null` before that is known. */
  who: null,
  get token() {
    return sessionStorage.getItem(TOKEN);
  },
  keep(token) {
    sessionStorage.setItem(TOKEN, token);
  },
  forget() {
    sessionStorage.removeItem(TOKEN);
    this.who = null;
  },
  get mayChange() {
    return this.who?.role === "write";
  },
};

function headers(more = {}) {
  return session.token === null ? more : { ...more, Authorization: `Bearer ${session.token}` };
}

async function answered(path, options) {
  let response;
  try {
    response = await fetch(path, { cache: "no-store", credentials: "omit", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "the server does not answer");
  }
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  throw new Refused(response.status, problem.detail ?? problem.title ?? `status ${response.status}`);
}

/** What who has no token may know: whether one is needed, and whether all is well. */
export async function access() {
  return (await answered("/page/access", {})).json();
}

export async function get(path, query = {}) {
  const text = new URLSearchParams(query).toString();
  return (await answered(BASE + path + (text && `?${text}`), { headers: headers() })).json();
}

async function send(method, path, body) {
  const options = { method, headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body) };
  return (await answered(BASE + path, options)).json();
}

export const post = (path, body) => send("POST", path, body);
export const put = (path, body) => send("PUT", path, body);

/**
 * Watches what goes on, and begins again by itself whenever that ends.
 * Tells `sample(event)`, `up()`, `down(why, retryAt)` and `turnedAway(refused)`.
 */
export class Watcher {
  constructor(tell) {
    this.tell = tell;
    this.wait = FIRST_WAIT;
    // Which start it goes on from; `null` while it is stopped.
    this.turn = null;
  }

  start() {
    this.stop();
    this.wait = FIRST_WAIT;
    this.turn = {};
    this.run(this.turn);
  }

  stop() {
    this.turn = null;
    this.reading?.abort();
    this.wake?.();
  }

  /** Tries now what would be tried later. */
  now() {
    this.wait = FIRST_WAIT;
    this.wake?.();
  }

  async run(turn) {
    while (this.turn === turn) {
      let why = "the server has ended the stream";
      try {
        await this.read();
      } catch (error) {
        if (this.turn !== turn) return;
        if (error.status === 401 || error.status === 403) {
          this.turn = null;
          this.tell.turnedAway(error);
          return;
        }
        why = error.name === "AbortError" ? "nothing has come for a while" : error.message;
      }
      if (this.turn !== turn) return;
      // Not all at once who were cut off at once.
      const wait = this.wait * (0.75 + Math.random() / 2);
      this.wait = Math.min(this.wait * 1.7, LONGEST_WAIT);
      this.tell.down(why, Date.now() + wait);
      await new Promise((resolve) => {
        this.wake = resolve;
        setTimeout(resolve, wait);
      });
    }
  }

  async read() {
    const reading = (this.reading = new AbortController());
    let silence = setTimeout(() => reading.abort(), SILENCE);
    try {
      const response = await answered(`${BASE}events`, { headers: headers({ Accept: "text/event-stream" }), signal: reading.signal });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      let known = false;
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        clearTimeout(silence);
        silence = setTimeout(() => reading.abort(), SILENCE);
        const events = (rest + value).split("\n\n");
        rest = events.pop();
        for (const event of events) {
          const data = event.split("\n").find((line) => line.startsWith("data: "));
          if (data === undefined) continue;
          const sample = JSON.parse(data.slice(6));
          if (!known) this.tell.up();
          known = true;
          this.wait = FIRST_WAIT;
          this.tell.sample(sample);
        }
      }
    } catch (error) {
      if (error instanceof Refused || error.name === "AbortError") throw error;
      throw new Refused(0, "the connection broke");
    } finally {
      clearTimeout(silence);
      reading.abort();
    }
  }
}
