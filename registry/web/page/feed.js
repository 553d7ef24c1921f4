/** The change feed: what others change, as it happens. */

import { api, Failure, linkedTo, partsOf, pause } from "./api.js"

const FIRST_WAIT_MS = 2_000
const MAX_WAIT_MS = 4_000

/** Beyond it, the connection is dead: without changes, a position arrives every 15 seconds. */
const SILENCE_MS = 45_000

/** @import { Identifier, Resource } from "./api.js" */
/** links: to what the resource is linked since. @typedef {Identifier & { op: Op, links: Identifier[] }} Change */
/** @typedef {"add" | "update" | "remove"} Op */
/**
 * @typedef {object} Follower
 * @property {(changes: Change[]) => void} onChanges called with those that arrive together
 * @property {() => unknown} onGap called if some are no longer known; reads all again
 * @property {(isConnected: boolean) => void} onConnection
 */

/**
 * Follow the changes since the first document was read, while the page is visible: a browser has few connections for
 * all its tabs.
 * @param {Follower} follower
 */
export function follow(follower) {
  let stop = new AbortController()
  const place = { position: api.position }
  const start = () => {
    stop.abort()
    stop = new AbortController()
    if (!document.hidden) run(follower, place, stop.signal)
  }
  document.addEventListener("visibilitychange", start)
  window.addEventListener("online", start)
  window.addEventListener("offline", () => follower.onConnection(false))
  start()
}

/**
 * Read the feed until a signal.
 * @param {Follower} follower
 * @param {{ position: string }} place how far it was read; "" is the present
 * @param {AbortSignal} signal
 */
async function run(follower, place, signal) {
  let wait = FIRST_WAIT_MS
  while (!signal.aborted) {
    const silence = new AbortController()
    /** @type {number | undefined} */
    let timer
    const hear = () => {
      clearTimeout(timer)
      timer = setTimeout(() => silence.abort(), SILENCE_MS)
    }
    try {
      /** @type {Record<string, string>} */
      const query = place.position ? { "page[after]": place.position } : {}
      const signals = AbortSignal.any([signal, silence.signal])
      const options = { query, signal: signals, accept: "text/event-stream", seconds: 0 }
      hear()
      const response = await api.fetch("GET", "/changes", options)
      wait = FIRST_WAIT_MS
      follower.onConnection(true)
      await read(response, hear, (changes, position) => {
        place.position = position || place.position
        if (changes.length > 0) follower.onChanges(changes)
      })
    } catch (error) {
      if (signal.aborted) return
      const isExpired = error instanceof Failure && (error.status === 410 || error.status === 400)
      if (isExpired && place.position) {
        api.position = ""
        await follower.onGap()
        place.position = api.position
      } else follower.onConnection(false)
    } finally {
      clearTimeout(timer)
    }
    await pause(wait, signal).catch(() => {})
    wait = Math.min(2 * wait, MAX_WAIT_MS)
  }
}

/**
 * Read server-sent events until their end.
 * @param {Response} response
 * @param {() => void} hear called when something arrives
 * @param {(changes: Change[], position: string) => void} onEvents
 */
async function read(response, hear, onEvents) {
  const decoder = new TextDecoder()
  let text = ""
  for await (const part of partsOf(response)) {
    hear()
    const events = (text + decoder.decode(part, { stream: true })).split("\n\n")
    text = events.pop() ?? ""
    const positions = events.flatMap((event) => fieldOf(event, "id"))
    const data = events.flatMap((event) => fieldOf(event, "data"))
    onEvents(data.map((json) => JSON.parse(json)).flatMap(changeOf), positions.at(-1) ?? "")
  }
}

/** @param {string} event @param {string} name */
function fieldOf(event, name) {
  const lines = event.split("\n").filter((line) => line.startsWith(`${name}: `))
  return lines.map((line) => line.slice(name.length + 2))
}

/**
 * Return the change that an operation repeats; none for an event with only a position.
 * @param {{ op?: Op, data?: Resource, ref?: Identifier }} operation
 * @returns {Change[]}
 */
function changeOf({ op, data, ref }) {
  const changed = data ?? ref
  return op && changed ? [{ op, type: changed.type, id: changed.id, links: linkedTo(data) }] : []
}
