/** The change feed: what others change, as it happens. */

import { api, Failure, linkedTo, pause, piecesOf } from "./api.js"
import { byId } from "./dom.js"
import { recover, refresh, tell } from "./router.js"

const FIRST_WAIT_MS = 2_000
const MAX_WAIT_MS = 4_000

/**
 * Tell the view what changes since the first document was read, while the page is visible: a browser has few
 * connections for all its tabs. If some changes are no longer known, the view is read again.
 */
export function follow() {
  let stop = new AbortController()
  let position = api.position
  const run = async (/** @type {AbortSignal} */ signal) => {
    let wait = FIRST_WAIT_MS
    while (!signal.aborted) {
      try {
        const query = position ? { "page[after]": position } : undefined
        const parts = api.stream("GET", "/changes", { query, signal, accept: "text/event-stream" })
        for await (const events of piecesOf(parts, "\n\n")) {
          wait = FIRST_WAIT_MS
          showConnection(true)
          position = events.flatMap((event) => fieldOf(event, "id")).at(-1) ?? position
          const changes = events.flatMap((event) => fieldOf(event, "data")).flatMap(changeOf)
          if (changes.length > 0) tell(changes)
        }
      } catch (error) {
        if (signal.aborted) return
        const isExpired = error instanceof Failure && (error.status === 410 || error.status === 400)
        if (isExpired && position) {
          api.position = ""
          if (await refresh().then(() => true, () => false)) position = api.position
        } else showConnection(false)
      }
      await pause(wait, signal).catch(() => {})
      wait = Math.min(2 * wait, MAX_WAIT_MS)
    }
  }
  const start = () => {
    stop.abort()
    stop = new AbortController()
    if (!document.hidden) run(stop.signal)
  }
  document.addEventListener("visibilitychange", start)
  window.addEventListener("online", start)
  window.addEventListener("offline", () => showConnection(false))
  start()
}

/** @param {boolean} isConnected */
function showConnection(isConnected) {
  const place = byId("connection")
  const isBack = isConnected && place.textContent !== ""
  place.textContent = isConnected ? "" : "Not connected: this page may be out of date."
  if (isBack) recover()
}

/** @param {string} event @param {string} name */
const fieldOf = (event, name) =>
  event.split("\n").flatMap((line) => (line.startsWith(`${name}: `) ? line.slice(name.length + 2) : []))

/** Return the change that an operation repeats; none for an event with only a position. @param {string} json */
function changeOf(json) {
  /** @type {{ op?: Change["op"], data?: Resource, ref?: Identifier }} */
  const { op, data, ref } = JSON.parse(json)
  const changed = data ?? ref
  return op && changed ? [{ op, type: changed.type, id: changed.id, links: linkedTo(data) }] : []
}
