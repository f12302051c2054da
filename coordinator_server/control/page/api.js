// Requests to the control API, and its events.

const TOKEN = "coordinator-server.token";

/** A refused request: `status` is the HTTP status, 0 if the server cannot be reached. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (text) => sessionStorage.setItem(TOKEN, text),
  clear: () => sessionStorage.removeItem(TOKEN),
};

/** Return the path of a resource; each part is one segment. Throws ApiError for `.` and `..`. */
export function path(...parts) {
  const dots = parts.find((part) => part === "." || part === "..");
  if (dots) throw new ApiError(0, `A browser cannot ask for the name ${dots}; use ctl.`);
  return `/${parts.map(encodeURIComponent).join("/")}`;
}

function withQuery(target, query) {
  const pairs = Object.entries(query ?? {}).filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  return pairs.length ? `${target}?${new URLSearchParams(pairs)}` : target;
}

async function request(method, target, { query, body, signal, headers, isAnonymous } = {}) {
  const all = { ...headers };
  if (token.get() && !isAnonymous) all.Authorization = `Bearer ${token.get()}`;
  if (body !== undefined) all["Content-Type"] = "application/json";
  try {
    return await fetch(withQuery(target, query), {
      method,
      headers: all,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      cache: "no-store",
      // Otherwise the browser would ask for a password itself, after the challenge of a 401.
      credentials: "omit",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The broker cannot be reached.");
  }
}

/** Send a request and return the JSON of the response. Throws ApiError. */
export async function call(method, target, options) {
  const response = await request(method, target, options);
  let answer;
  try {
    answer = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(response.status, `${target}: the response is not JSON`);
  }
  if (!response.ok) throw new ApiError(response.status, answer.error ?? response.statusText);
  return answer;
}

/** Return how one can log in: {isOpen, byToken, byUser}. */
export async function waysToLogIn(signal) {
  const response = await request("GET", "/cluster", { signal, isAnonymous: true });
  const challenge = response.headers.get("WWW-Authenticate") ?? "";
  return {
    isOpen: response.ok,
    byToken: /\bBearer\b/.test(challenge),
    byUser: /\bBasic\b/.test(challenge),
  };
}

export const get = (target, query, signal) => call("GET", target, { query, signal });

/** Return what `get` returns, or null if the user may not see it. */
export async function getIfAllowed(target, query, signal) {
  try {
    return await get(target, query, signal);
  } catch (error) {
    if (error.status === 403) return null;
    throw error;
  }
}

/** Return the entries of a paged list, about `most` of them; `isWhole` is false if there are more. */
export async function all(target, field, query, signal, most = 2_000, limit = 1_000) {
  const entries = [];
  let after = null;
  let page;
  do {
    page = await get(target, { ...query, limit, after }, signal);
    entries.push(...page[field]);
    after = page.next;
  } while (after && entries.length < most);
  return { entries, isWhole: !after, page };
}

/** Follow the server's events: call `onEvent(event)` for each and `onState(isConnected)`.
 *
 * `fetch` is used, not EventSource, because EventSource cannot send a token. After an interruption
 * it continues after the last event; the server sends `reset` if events were lost.
 */
export async function follow(onEvent, onState) {
  let last = null;
  let pause = 500;
  for (;;) {
    try {
      const headers = last === null ? {} : { "Last-Event-ID": last };
      const response = await request("GET", "/events", { headers });
      if (!response.ok) throw new ApiError(response.status, "no events");
      onState(true);
      pause = 500;
      for await (const event of eventsOf(response.body)) {
        last = event.id ?? last;
        if (event.data) onEvent(JSON.parse(event.data));
      }
    } catch {
      // The loop below waits and connects again.
    }
    onState(false);
    await new Promise((done) => setTimeout(done, pause));
    pause = Math.min(pause * 2, 10_000);
  }
}

async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = {};
      for (const line of block.split("\n")) {
        const colon = line.indexOf(":");
        if (colon < 1) continue;
        const field = line.slice(0, colon);
        const text = line.slice(colon + 1).replace(/^ /, "");
        event[field] = field === "data" && "data" in event ? `${event.data}\n${text}` : text;
      }
      yield event;
    }
  }
}
