/** The router: the address has the whole state, and names the view that is shown. */

import { Failure } from "./api.js"
import { closeDialogs, isUnsaved, mayLeave } from "./dialogs.js"
import { button, byId, h } from "./dom.js"

/** Not in every browser. */
const navigation = /** @type {any} */ (window).navigation

/** @type {(path: string, state: URLSearchParams, signal: AbortSignal) => Promise<View>} */
let createView
/** @type {View | null} */
let view = null
let loading = new AbortController()
let isLoading = false
let isAsking = false
let isReturning = false
let hasAgreed = false
let shownHash = ""

/** Changes since the view that is loaded began to read. @type {Change[]} */
let early = []

/** Whether something would be lost, and nobody has agreed to it. */
const isDirty = () => !hasAgreed && isUnsaved(document.body)

/** Show the view of the address, now and whenever it changes. @param {typeof createView} factory */
export function startRouter(factory) {
  createView = factory
  window.addEventListener("beforeunload", (event) => isDirty() && event.preventDefault())
  if (navigation) navigation.addEventListener("navigate", onNavigate)
  else {
    history.scrollRestoration = "manual"
    window.addEventListener("hashchange", onHashChange)
  }
  return open()
}

/** @param {any} event */
function onNavigate(event) {
  if (!event.hashChange || !event.canIntercept || isReturning) return
  const { destination, navigationType } = event
  const [left, isBack] = [location.hash, navigationType === "traverse"]
  if (!isDirty()) {
    // The browser restores the position after the handler has ended.
    event.intercept({ focusReset: "manual", handler: () => open({ left, isBack }) })
  } else if (isBack) {
    // Not every browser lets a page prevent that; so it returns, and keeps all entries of the history.
    const here = navigation.currentEntry.key
    event.intercept({ focusReset: "manual", scroll: "manual", handler: () => comeBack(here, destination.key) })
  } else {
    event.preventDefault()
    leave(() => (location.hash = new URL(destination.url).hash))
  }
}

/** Return to an entry of the history, and ask whether to leave it. @param {string} here @param {string} wanted */
async function comeBack(here, wanted) {
  isReturning = true
  await navigation.traverseTo(here).finished.catch(() => {})
  isReturning = false
  leave(() => navigation.traverseTo(wanted))
}

/** How far each address was scrolled, where there is no Navigation API. @type {Map<string, number>} */
const scrolled = new Map()

/** Follow the address where there is no Navigation API. An entry of the history that was left has a state. */
async function onHashChange() {
  const [left, wanted, isBack] = [shownHash, location.hash, history.state !== null]
  if (wanted === left) return
  scrolled.set(left, scrollY)
  if (!isDirty()) {
    await open({ left, isBack })
    return isBack && window.scrollTo(0, scrolled.get(wanted) ?? 0)
  }
  history.replaceState("shown", "", left)
  await leave(() => {
    history.pushState(null, "", wanted)
    return open({ left })
  })
}

/** Ask whether what is not saved may be lost, and go. @param {() => unknown} go */
async function leave(go) {
  if (isAsking) return
  isAsking = true
  hasAgreed = await mayLeave(document.body).finally(() => (isAsking = false))
  if (hasAgreed) go()
}

/** Return the address of a view. @param {string} path as in the API @param {URLSearchParams} [state] */
export function address(path, state = new URLSearchParams()) {
  const query = state.toString().replaceAll("%5B", "[").replaceAll("%5D", "]").replaceAll("%2C", ",")
  return `#${path}${query ? "?" : ""}${query}`
}

/** Go to a view. @param {string} path @param {URLSearchParams} [state] */
export function navigate(path, state) {
  const target = address(path, state)
  if (target === location.hash) refresh()
  else location.hash = target
}

/** Read the view again. */
export const refresh = () => view?.load() ?? open()

/** Read the view again when the connection has returned: a read may have failed before. */
export const recover = () => (isLoading ? undefined : refresh().catch(() => {}))

/** Return the path of the view, such as `/persons/1`. */
export const currentPath = () => location.hash.slice(1).split("?")[0]

/** Tell the view what others have changed. @param {Change[]} changes */
export function tell(changes) {
  if (isLoading) early.push(...changes)
  else view?.update(changes)
}

/** Give the view what was pasted. @param {string} text */
export const paste = (text) => view?.paste?.(text)

/** Show the view of the address. @param {{ left?: string, isBack?: boolean }} [from] left: the address before */
export async function open({ left, isBack = false } = {}) {
  if (left !== undefined) closeDialogs()
  loading.abort()
  loading = new AbortController()
  const { signal } = loading
  const main = byId("main")
  isLoading = true
  early = []
  hasAgreed = false
  shownHash = location.hash
  if (!navigation) history.replaceState("shown", "")
  main.setAttribute("aria-busy", "true")
  let content
  try {
    const query = new URLSearchParams(location.hash.split("?")[1])
    const next = await createView(currentPath(), query, signal)
    await next.load()
    if (signal.aborted) return
    view = next
    content = next.element
  } catch (error) {
    if (signal.aborted) return
    view = null
    content = failed(/** @type {Error} */ (error), () => open())
  }
  isLoading = false
  main.removeAttribute("aria-busy")
  const hadFocus = main.contains(document.activeElement)
  main.replaceChildren(content)
  document.title = `${view?.title ?? "There is nothing here"} – ${byId("title").textContent}`
  markType()
  if (early.length > 0) view?.update(early)
  if (left === undefined && !hadFocus) return
  const origin = isBack && [...main.querySelectorAll("a")].find((link) => link.hash === left)
  if (origin) return origin.focus({ preventScroll: true })
  main.querySelector("h1")?.focus()
  if (!isBack) window.scrollTo(0, 0)
}

/** Return what is shown in place of a view that cannot be read. @param {Error} error @param {() => unknown} retry */
export function failed(error, retry) {
  const isMissing = error instanceof Failure && error.status === 404
  const heading = h("h1", { tabindex: "-1" }, isMissing ? "There is nothing here" : "That did not work")
  const help = h("p", {}, isMissing ? "It may have been deleted, or the link is incomplete." : error.message)
  const again = !isMissing && button("Try again", retry, { class: "primary" })
  return h("section", { class: "blank", role: "alert" }, heading, help, again)
}

/** Mark the type that is shown among all. */
export function markType() {
  const links = byId("types").querySelectorAll("a")
  const collection = currentPath().split("/")[1] ?? links[0]?.hash.slice(2)
  for (const link of links) link.ariaCurrent = link.hash === `#/${collection}` ? "page" : null
}
