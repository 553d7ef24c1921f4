/** Elements. Text only ever enters the page as text, never as HTML. */

const FOCUSABLE = "a[href], button, input, select"

/**
 * Return a new element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, unknown>} [attributes] functions are listeners; true is an attribute without a value; false,
 *     null and undefined are left out
 * @param {...Child} children @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, /** @type {EventListener} */ (value))
    else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value === true ? "" : String(value))
    }
  }
  element.append(...present(children))
  return element
}

/** Return the children that are to be shown. @param {Child[]} children @returns {(Node | string)[]} */
function present(children) {
  const shown = children.filter((child) => child !== null && child !== undefined && child !== false)
  return shown.map((child) => (child instanceof Node ? child : String(child)))
}

/**
 * Show these children in an element. What is equal stays, with its focus; if what has the focus is replaced, its
 * successor gets it. So listeners of an element must not depend on more than what it shows.
 * @param {Element} parent @param {...Child} children
 */
export function show(parent, ...children) {
  const next = present(children).map((child) => (child instanceof Node ? child : document.createTextNode(child)))
  for (const [index, node] of next.entries()) {
    const old = parent.childNodes[index]
    if (!old) parent.append(node)
    else if (old !== node && !old.isEqualNode(node) && !idle(old).isEqualNode(node)) {
      const hadFocus = old.contains(document.activeElement)
      old.replaceWith(node)
      const control = hadFocus && node instanceof HTMLElement && (node.querySelector(FOCUSABLE) ?? node)
      if (control instanceof HTMLElement) control.focus()
    }
  }
  while (parent.childNodes.length > next.length) parent.lastChild?.remove()
}

/** Return a copy of a node as it is when the actions of its buttons have ended. @param {Node} node */
function idle(node) {
  const copy = h("div", {}, node.cloneNode(true))
  for (const control of copy.querySelectorAll("button")) control.ariaDisabled = null
  return copy.childNodes[0]
}

/** Return the element with an id. @param {string} id */
export const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id))

/**
 * Return a button, which can be pressed again when its action has ended.
 * @param {string} label @param {(event: MouseEvent) => unknown} click @param {Record<string, unknown>} [attributes]
 */
export function button(label, click, attributes = {}) {
  const press = (/** @type {MouseEvent} */ event) => unlessBusy(control, () => click(event))
  const control = h("button", { type: "button", click: press, ...attributes }, label)
  return control
}

/** Return a row of buttons, which ends a form or a dialog. @param {...Child} children */
export const buttons = (...children) => h("div", { class: "buttons" }, ...children)

/**
 * Return a control, with the box that it may be part of, its label, and what belongs to it.
 * @param {string} label @param {HTMLElement} control @param {...Child} more
 */
export function field(label, control, ...more) {
  control.id ||= newId()
  const shown = control.closest(".find") ?? control
  return h("div", { class: "field" }, h("label", { for: control.id }, label), shown, ...more)
}

/** Return a table whose rows begin with a heading. @param {string[]} heads @param {Child[][]} rows */
export function grid(heads, rows) {
  const head = h("tr", {}, ...heads.map((text) => h("th", { scope: "col" }, text)))
  const body = rows.map(([first, ...others]) =>
    h("tr", {}, h("th", { scope: "row" }, first), ...others.map((cell) => h("td", {}, cell))),
  )
  return h("div", { class: "scrolls" }, h("table", {}, h("thead", {}, head), h("tbody", {}, ...body)))
}

/** Return a copy of what is in a template of the page. @param {string} id */
export function copy(id) {
  const { content } = /** @type {HTMLTemplateElement} */ (byId(id))
  return /** @type {HTMLElement} */ (content.firstElementChild?.cloneNode(true))
}

/** Return whether something else is entered than at first. @param {HTMLInputElement | HTMLSelectElement} control */
export function isChanged(control) {
  if (control instanceof HTMLSelectElement) return !control.selectedOptions[0]?.defaultSelected
  if (control.type === "checkbox") return control.checked !== control.defaultChecked
  return control.validity.badInput || control.value !== control.defaultValue
}

/** Return what is entered in a control. @param {Control} control */
export const entered = (control) =>
  control instanceof HTMLInputElement && control.type === "checkbox" ? String(control.checked) : control.value

/** Let a control have begun with another state. @param {Control} control @param {string} state */
export function setInitial(control, state) {
  for (const option of control.querySelectorAll("option")) option.defaultSelected = option.value === state
  if (control instanceof HTMLInputElement) {
    if (control.type === "checkbox") control.defaultChecked = state === "true"
    else control.defaultValue = state
  }
}

let lastId = 0

/** Return an id that no other element has. */
export const newId = () => `e${++lastId}`

/**
 * Run the action of a control, unless it is already running.
 * @param {HTMLButtonElement} control @param {() => unknown} action
 */
export async function unlessBusy(control, action) {
  if (control.ariaDisabled) return
  control.ariaDisabled = "true"
  try {
    await action()
  } finally {
    control.ariaDisabled = null
  }
}
