/** Elements, announcements and dialogs. Text only ever enters the page as text, never as HTML. */

import { texts } from "./texts.js"

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Return a new element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, unknown>} [attributes] functions are listeners; true is an attribute
 *   without a value; false, null and undefined are left out
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name, /** @type {EventListener} */ (value))
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value === true ? "" : String(value))
    }
  }
  element.append(...present(children))
  return element
}

/**
 * Return the children that are to be shown.
 * @param {Child[]} children
 * @returns {(Node | string)[]}
 */
function present(children) {
  const shown = children.filter((one) => one !== null && one !== undefined && one !== false)
  return shown.map((one) => (one instanceof Node ? one : String(one)))
}

/**
 * Return the element with an id.
 * @param {string} id
 */
export function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id))
}

/**
 * Return a button, which can be pressed again when its action has ended.
 * @param {string} label
 * @param {(event: MouseEvent) => unknown} click
 * @param {Record<string, unknown>} [attributes]
 */
export function button(label, click, attributes = {}) {
  const press = (/** @type {MouseEvent} */ event) =>
    isBusy(control) || whileBusy(control, async () => click(event))
  const control = h("button", { type: "button", click: press, ...attributes }, label)
  return control
}

/**
 * Return a row of buttons, which ends a form or a dialog.
 * @param {...Child} children
 */
export function buttons(...children) {
  return h("div", { class: "buttons" }, ...children)
}

/**
 * Return a control with its label, and what belongs to it.
 * @param {string} label
 * @param {HTMLElement} control which has an id
 * @param {...Child} more
 */
export function field(label, control, ...more) {
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, ...more)
}

/**
 * Return a paragraph that says what has failed.
 * @param {unknown} error
 */
export function failed(error) {
  return h("p", { class: "error" }, /** @type {Error} */ (error).message)
}

/**
 * Return a table whose rows begin with a heading.
 * @param {string[]} heads
 * @param {Child[][]} rows
 */
export function grid(heads, rows) {
  const head = h("tr", {}, ...heads.map((one) => h("th", { scope: "col" }, one)))
  const body = rows.map(([first, ...others]) =>
    h("tr", {}, h("th", { scope: "row" }, first), ...others.map((one) => h("td", {}, one))),
  )
  const table = h("table", {}, h("thead", {}, head), h("tbody", {}, ...body))
  return h("div", { class: "scrolls" }, table)
}

let lastId = 0

/** Return an id that no other element has. */
export function newId() {
  lastId += 1
  return `e${lastId}`
}

/**
 * Tell everybody what has happened, also those who hear the page.
 * @param {string} text
 * @param {{ isError?: boolean, link?: [string, string] }} [options] link: its text and target
 */
export function announce(text, { isError = false, link } = {}) {
  const close = button("×", () => note.remove(), { "aria-label": texts.close, class: "quiet" })
  const [label, href] = link ?? []
  const note = h("div", { class: isError ? "note error" : "note" }, h("span", {}, text))
  if (href) note.append(h("a", { href }, label))
  note.append(close)
  byId(isError ? "alerts" : "notes").replaceChildren(note)
  if (!isError) setTimeout(() => note.remove(), 8_000)
}

/**
 * Tell everybody that something has failed.
 * @param {unknown} error
 */
export function announceFailure(error) {
  announce(/** @type {Error} */ (error).message, { isError: true })
}

/**
 * Open a modal dialog; it is removed when it closes.
 * @param {string} title
 * @param {Child[]} content
 * @param {{ mayClose?: () => Promise<boolean> | boolean, isWide?: boolean }} [options]
 */
export function openDialog(title, content, { mayClose = () => true, isWide = false } = {}) {
  const id = newId()
  const tryToClose = async () => (await mayClose()) && dialog.close()
  const close = button("×", tryToClose, { "aria-label": texts.close, class: "quiet" })
  const heading = h("header", {}, h("h2", { id }, title), close)
  const dialog = h("dialog", { "aria-labelledby": id, class: isWide ? "wide" : null }, heading)
  dialog.append(...present(content))
  const opener = document.activeElement
  dialog.addEventListener("cancel", (event) => {
    event.preventDefault()
    tryToClose()
  })
  dialog.addEventListener("close", () => {
    dialog.remove()
    if (opener) refocus(opener)
  })
  document.body.append(dialog)
  dialog.showModal()
  return dialog
}

/**
 * Focus an element again, or what has taken its place: that with the same label.
 * @param {Element} element
 */
export function refocus(element) {
  const label = (/** @type {Element} */ one) => one.getAttribute("aria-label") ?? one.textContent
  const others = [...document.querySelectorAll("main button, main a")]
  const found = element.isConnected
    ? element
    : label(element) && others.find((one) => label(one) === label(element))
  if (found instanceof HTMLElement) found.focus()
}

/**
 * Ask a question; return whether the answer is yes.
 * @param {string} title
 * @param {Child[]} content
 * @param {string} yes the label of the button that agrees
 * @param {{ isDanger?: boolean, no?: string }} [options]
 * @returns {Promise<boolean>}
 */
export function ask(title, content, yes, { isDanger = false, no = texts.cancel } = {}) {
  return new Promise((resolve) => {
    let answer = false
    const agree = () => {
      answer = true
      dialog.close()
    }
    const refuse = button(no, () => dialog.close(), { autofocus: true })
    const kind = isDanger ? "danger" : "primary"
    const buttons = h("div", { class: "buttons" }, refuse, button(yes, agree, { class: kind }))
    const dialog = openDialog(title, [...content, buttons])
    dialog.addEventListener("close", () => resolve(answer))
  })
}

/**
 * Run an action while a control cannot be used, so that nobody starts it twice.
 * @template T
 * @param {HTMLButtonElement} control
 * @param {() => Promise<T>} action
 * @returns {Promise<T>}
 */
export async function whileBusy(control, action) {
  control.setAttribute("aria-disabled", "true")
  try {
    return await action()
  } finally {
    control.removeAttribute("aria-disabled")
  }
}

/**
 * Return whether a control is busy.
 * @param {Element} control
 */
export function isBusy(control) {
  return control.getAttribute("aria-disabled") === "true"
}
