/** The start of the page, and what surrounds the views. */

import { askAgain, requireAccess } from "./access.js"
import { api, arrived, Failure, isAborted } from "./api.js"
import { announce } from "./dialogs.js"
import { byId, h } from "./dom.js"
import { follow } from "./feed.js"
import { findBox } from "./find.js"
import { bringFile, listOf } from "./list.js"
import { currentPath, failed, markType, navigate, paste, refresh, startRouter } from "./router.js"
import { counted } from "./texts.js"
import { readableTypes, writableTypes } from "./types.js"

/**
 * Return the view of a path. Raises Failure.
 * @param {string} path @param {URLSearchParams} state @param {AbortSignal} signal @returns {Promise<View>}
 */
async function viewOf(path, state, signal) {
  const [collection, id, link] = path.split("/").filter(Boolean)
  const types = readableTypes()
  const type = collection ? types.find((other) => other.path === `/${collection}`) : types[0]
  if (!type) throw new Failure(types.length > 0 ? 404 : 403)
  if (id && !/^[0-9]+$/.test(id)) throw new Failure(404)
  if (!id) return listOf(type, type.path, state, signal)
  if (!link) return new (await arrived(import("./card.js"))).Card(type, id, signal)
  const relationship = type.relationships.find((other) => other.many && other.name === link)
  const target = relationship && types.find((other) => other.name === relationship.target)
  if (!target) throw new Failure(404)
  return listOf(target, `${type.path}/${id}/${link}`, state, signal, type)
}

/** Show the types that may be read, and the box that finds their resources. */
function showTypes() {
  const types = readableTypes()
  const found = types.filter((type) => type.writable)
  const names = found.map((type) => type.plural.toLowerCase()).join(", ")
  const pick = (/** @type {Type} */ type, /** @type {{ id: string }} */ { id }) => navigate(`${type.path}/${id}`)
  const input = findBox(found, pick, {
    label: "Find",
    placeholder: `Find ${names}`,
    onAll: (type, text) => navigate(type.path, new URLSearchParams({ "filter[search]": text })),
  })
  input.id = "find"
  byId("search").replaceChildren(input.closest(".find") ?? input)
  byId("types").replaceChildren(...types.map((type) => h("a", { href: `#${type.path}` }, type.plural)))
  markType()
}

const hasDialog = () => document.querySelector("dialog[open]") !== null

/** Return whether something is entered, and not meant for the view. @param {Event} event */
const isEntered = ({ target }) =>
  /** @type {HTMLElement} */ (target).matches("input:not([type=checkbox]), select") || hasDialog()

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (event.key !== "/" || isEntered(event) || event.ctrlKey || event.metaKey || event.altKey) return
  event.preventDefault()
  const box = /** @type {HTMLInputElement} */ (byId("find"))
  box.focus()
  box.select()
}

/** @param {ClipboardEvent} event */
const onPaste = (event) => isEntered(event) || paste(event.clipboardData?.getData("text") ?? "")

/** Import a file that is dropped anywhere. @param {DragEvent} event */
function onDrop(event) {
  if (!hasFiles(event)) return
  event.preventDefault()
  const file = event.dataTransfer?.files[0]
  const types = writableTypes()
  const type = types.find((other) => currentPath().startsWith(other.path)) ?? types[0]
  if (file && type && !hasDialog()) bringFile(type, file)
}

/** @param {DragEvent} event */
const hasFiles = (event) => event.dataTransfer?.types.includes("Files") ?? false

/** Focus the first row's link, or else the heading. @param {MouseEvent} event */
function skip(event) {
  event.preventDefault()
  const main = byId("main")
  const link = main.querySelector("tbody a") ?? main.querySelector("h1")
  if (link instanceof HTMLElement) link.focus()
}

/** Learn the types, build what surrounds the views, and show what the address says. */
async function start() {
  api.onUnauthorized = askAgain(() => {
    showTypes()
    refresh()
  })
  api.onWait = (seconds) => announce(`The registry is busy. Trying again in ${counted(seconds, "second")}.`)
  await requireAccess("This registry needs an access token. Your administrator can create one.")
  showTypes()
  const top = byId("top")
  new ResizeObserver(() => document.documentElement.style.setProperty("--top", `${top.offsetHeight}px`)).observe(top)
  const prepare = () => import("./card.js").catch(() => {}) // so that cards open at once
  byId("main").addEventListener("pointerover", prepare, { once: true })
  document.addEventListener("keydown", prepare, { once: true })
  byId("skip").addEventListener("click", skip)
  document.addEventListener("keydown", onKey)
  document.addEventListener("paste", onPaste)
  document.addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault())
  document.addEventListener("drop", onDrop)
  window.addEventListener("unhandledrejection", (event) => {
    event.preventDefault()
    if (!isAborted(event.reason)) announce(event.reason.message, { isError: true })
  })
  byId("find").focus()
  await startRouter(viewOf)
  follow()
}

start().catch((error) => byId("main").replaceChildren(failed(error, () => location.reload())))
