/** The change feed: what others change, as it happens. */

import { isAborted, pause } from "./api.js"

const FIRST_WAIT_MS = 2_000
const MAX_WAIT_MS = 60_000

/** @typedef {import("./api.js").Identifier} Identifier */
/** @typedef {{ op: "add" | "update" | "remove", type: string, id: string }} Change */

/**
 * Follow the changes while the page is visible: a browser has few connections for all its tabs.
 * @param {import("./api.js").Api} api
 * @param {(changes: Change[]) => void} onChanges called with those that arrive together
 */
export function follow(api, onChanges) {
  let stop = new AbortController()
  const start = () => {
    stop.abort()
    stop = new AbortController()
    if (!document.hidden) run(api, onChanges, stop.signal)
  }
  document.addEventListener("visibilitychange", start)
  start()
}

/**
 * Read the feed until a signal, from the position of the document that was read last.
 * @param {import("./api.js").Api} api
 * @param {(changes: Change[]) => void} onChanges
 * @param {AbortSignal} signal
 */
async function run(api, onChanges, signal) {
  let wait = FIRST_WAIT_MS
  while (!signal.aborted) {
    try {
      /** @type {Record<string, string>} */
      const query = api.position ? { "page[after]": api.position } : {}
      const options = { query, signal, accept: "text/event-stream", seconds: 0 }
      const response = await api.fetch("GET", "/changes", options)
      wait = FIRST_WAIT_MS
      await read(response, (changes, position) => {
        api.position = position || api.position
        if (changes.length > 0) onChanges(changes)
      })
    } catch (error) {
      if (isAborted(error)) return
      // An expired position: what changed before is read with the next view.
      api.position = ""
    }
    await pause(wait, signal).catch(() => {})
    wait = Math.min(2 * wait, MAX_WAIT_MS)
  }
}

/**
 * Read server-sent events until their end.
 * @param {Response} response
 * @param {(changes: Change[], position: string) => void} onEvents
 */
async function read(response, onEvents) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader()
  const decoder = new TextDecoder()
  for (let text = ""; ; ) {
    const { done, value } = await reader.read()
    if (done) return
    const events = (text + decoder.decode(value, { stream: true })).split("\n\n")
    text = events.pop() ?? ""
    const positions = events.flatMap((event) => fieldOf(event, "id"))
    const data = events.flatMap((event) => fieldOf(event, "data"))
    onEvents(data.map((one) => JSON.parse(one)).flatMap(changeOf), positions.at(-1) ?? "")
  }
}

/**
 * @param {string} event
 * @param {string} name
 */
function fieldOf(event, name) {
  const lines = event.split("\n").filter((line) => line.startsWith(`${name}: `))
  return lines.map((line) => line.slice(name.length + 2))
}

/**
 * Return the change that an operation repeats; none for an event with only a position.
 * @param {{ op?: Change["op"], data?: Identifier, ref?: Identifier }} operation
 * @returns {Change[]}
 */
function changeOf({ op, data, ref }) {
  const changed = data ?? ref
  return op && changed ? [{ op, type: changed.type, id: changed.id }] : []
}
