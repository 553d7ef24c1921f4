/** Notes and modal dialogs. */

import { button, buttons, byId, h, isChanged, newId } from "./dom.js"

const NOTE_MS = 10_000
const STORED = "Rows that are already stored remain."

/**
 * Tell everybody what has happened, also those who hear the page.
 * @param {string} text @param {{ isError?: boolean, offer?: HTMLElement }} [options] offer: a link or a button
 */
export function announce(text, { isError = false, offer } = {}) {
  const remove = () => note.remove()
  const close = button("×", remove, { "aria-label": "Close", class: "quiet" })
  offer?.addEventListener("click", remove)
  const note = h("div", { class: isError ? "note error" : "note" }, h("span", {}, text), offer, close)
  placeNotes()
  byId(isError ? "alerts" : "notes").replaceChildren(note)
  if (!isError) setTimeout(remove, NOTE_MS)
}

/** Move notes to where they can be used: into the dialog on top, beside which everything is inert. */
function placeNotes() {
  const top = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body
  if (byId("messages").parentElement !== top) top.append(byId("messages"))
}

/**
 * Open a modal dialog, which asks before it loses something; it is removed when it closes.
 * @param {string} title @param {Child[]} content
 * @param {{ stays?: boolean, kind?: string }} [options] stays: whether people cannot close it. kind: a class
 */
export function openDialog(title, content, { stays = false, kind } = {}) {
  const id = newId()
  const tryToClose = async (/** @type {Event} */ event) => {
    event.preventDefault()
    if (!stays && (await mayLeave(dialog))) dialog.close()
  }
  const close = !stays && button("×", tryToClose, { "aria-label": "Close", class: "quiet" })
  const heading = h("header", {}, h("h2", { id }, title), close)
  const states = { "aria-labelledby": id, class: kind, closedby: stays ? "none" : "closerequest" }
  const dialog = h("dialog", states, heading, ...content)
  dialog.addEventListener("cancel", tryToClose)
  // Between two actions of somebody, a browser lets a page prevent `cancel` only once.
  dialog.addEventListener("keydown", (event) => event.key === "Escape" && tryToClose(event))
  dialog.addEventListener("close", () => {
    placeNotes()
    dialog.remove()
  })
  document.body.append(dialog)
  dialog.showModal()
  if (byId("messages").querySelector(".note")) placeNotes()
  return dialog
}

/** Close all dialogs that people can close, the one on top first. */
export function closeDialogs() {
  const dialogs = [...document.querySelectorAll("dialog")].reverse()
  for (const dialog of dialogs) if (dialog.getAttribute("closedby") !== "none") dialog.close()
}

/**
 * Ask something; return what was entered where the answer is yes, otherwise null.
 * @param {string} title @param {Child[]} content text and controls, which must be valid before the answer can be yes
 * @param {string} yes the label of the button that agrees
 * @param {{ isDanger?: boolean, no?: string }} [options] @returns {Promise<FormData | null>}
 */
export function ask(title, content, yes, { isDanger = false, no = "Cancel" } = {}) {
  return new Promise((resolve) => {
    const refuse = button(no, () => dialog.close(), { autofocus: true })
    const agree = h("button", { value: "yes", class: isDanger ? "danger" : "primary" }, yes)
    const form = h("form", { method: "dialog" }, ...content, buttons(refuse, agree))
    const dialog = openDialog(title, [form])
    dialog.addEventListener("close", () => resolve(dialog.returnValue ? new FormData(form) : null))
  })
}

/** Return what tells how far the import in an element is, while it runs. @param {Element} element */
const progressIn = (element) => element.querySelector(":has(> progress)")

/** Return whether leaving an element would lose something: typed text, or an import. @param {Element} element */
export function isUnsaved(element) {
  /** @type {NodeListOf<Control>} */
  const controls = element.querySelectorAll(".inputs :is(input, select)")
  return [...controls].some(isChanged) || Boolean(progressIn(element))
}

/** Return whether an element may be left: nothing would be lost, or somebody agrees. @param {Element} element */
export async function mayLeave(element) {
  if (!isUnsaved(element)) return true
  const progress = progressIn(element)
  const help = h("p", {}, progress?.textContent, " ", progress ? STORED : "What you typed here is not saved yet.")
  if (progress) return Boolean(await ask("Stop the import?", [help], "Stop", { no: "Go on" }))
  return Boolean(await ask("Leave without saving?", [help], "Leave", { isDanger: true, no: "Stay" }))
}
