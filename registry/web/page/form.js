/** Forms: the inputs of a type, their errors, and the dialog for new resources. */

import { api, Failure } from "./api.js"
import { announce, askToLeave, openDialog } from "./dialogs.js"
import { buttons, h, newId, unlessBusy } from "./dom.js"
import { FindBox } from "./find.js"
import { protect } from "./router.js"
import { texts } from "./texts.js"
import { linkable, nameOf, typeOf } from "./types.js"
import { controlFor, valueOf } from "./values.js"

/** @import { Identifier, Resource } from "./api.js" */
/** @import { Relationship, Type } from "./types.js" */
/** @import { Control } from "./values.js" */
/**
 * An input. first: what it began with, as `stateOf` returns it.
 * @typedef {{ element: HTMLElement, error: HTMLElement, control: Control, first: unknown }} Field
 */

/** The inputs for the attributes of a type, and for the links of a new resource. */
export class Inputs {
  /** @type {Map<string, Field>} */
  #fields = new Map()

  /** The linked resources, by relationship. @type {Map<string, Identifier>} */
  #linked = new Map()

  /** @param {Type} type @param {Record<string, any> | null} values those of the resource; null for a new one */
  constructor(type, values) {
    this.type = type
    this.isNew = !values
    this.attributes = type.attributes.filter((attribute) => !attribute.readOnly)
    for (const attribute of this.attributes) {
      const value = values ? values[attribute.name] : attribute.default
      // A stored value must stay if it must not be null, also where creation has a default.
      const isRequired = attribute.required || (Boolean(values) && !attribute.nullable)
      const control = controlFor({ ...attribute, required: isRequired }, value)
      this.#add(attribute.name, attribute.label, control, attribute.description ?? "", isRequired)
    }
    for (const link of this.isNew ? linkable(type) : []) this.#addLink(link)
    this.message = h("p", { role: "alert", class: "error" })
    const all = [...this.#fields.values()].map((field) => field.element)
    this.element = h("div", { class: "inputs" }, ...all, this.message)
  }

  /**
   * @param {string} name
   * @param {string} label
   * @param {Control} control
   * @param {string} description
   * @param {boolean} isRequired
   */
  #add(name, label, control, description, isRequired) {
    const [id, hintId, errorId] = [control.id || newId(), newId(), newId()]
    control.id = id
    control.setAttribute("aria-describedby", description ? `${hintId} ${errorId}` : errorId)
    const mark = isRequired ? h("span", { class: "mark" }, ` (${texts.required})`) : null
    const hint = description ? h("small", { id: hintId }, description) : null
    const error = h("p", { id: errorId, class: "error" })
    const shown = control.closest(".find") ?? control
    const element = h("div", { class: "field" }, h("label", { for: id }, label, mark), shown, hint, error)
    this.#fields.set(name, { element, error, control, first: stateOf(control) })
  }

  /** @param {Relationship} link */
  #addLink(link) {
    const pick = (/** @type {Type} */ target, /** @type {Resource} */ { id }, /** @type {string} */ name) => {
      this.#linked.set(link.name, { type: target.name, id })
      box.input.value = name
    }
    const box = new FindBox([typeOf(link.target)], pick, { label: link.label, placeholder: texts.choose })
    box.input.addEventListener("input", () => this.#linked.delete(link.name))
    this.#add(link.name, link.label, box.input, "", false)
  }

  /** Whether something was entered that would be lost. */
  get isDirty() {
    return [...this.#fields.values()].some(({ control, first }) => stateOf(control) !== first)
  }

  /** Focus the first input. */
  focus() {
    this.#fields.values().next().value?.control.focus()
  }

  /** Enter words into the first text inputs, one each and the rest into the last: of a name. @param {string} text */
  enter(text) {
    const named = this.attributes.filter(({ kind, required }) => kind === "text" && required)
    const words = text.split(/\s+/)
    for (const [index, { name }] of named.entries()) {
      const { control } = /** @type {Field} */ (this.#fields.get(name))
      control.value = index === named.length - 1 ? words.join(" ") : (words.shift() ?? "")
    }
  }

  /**
   * Return the attributes that were entered: those of a stored resource that were changed, as an input can round what
   * is stored. If one is not valid, show that, and return null.
   * @returns {Record<string, any> | null}
   */
  read() {
    this.#clear()
    /** @type {Record<string, any>} */
    const values = {}
    /** @type {[string, string][]} */
    const invalid = []
    for (const attribute of this.attributes) {
      const { control, first } = /** @type {Field} */ (this.#fields.get(attribute.name))
      if (!this.isNew && stateOf(control) === first) continue
      const isRequired = control.hasAttribute("required")
      try {
        values[attribute.name] = valueOf({ ...attribute, required: isRequired }, control)
      } catch (message) {
        invalid.push([attribute.name, String(message)])
      }
    }
    for (const { name } of this.type.relationships) {
      const entered = this.#fields.get(name)?.control.value.trim()
      if (entered && !this.#linked.has(name)) invalid.push([name, texts.fieldUnchosen])
    }
    for (const [name, message] of invalid) this.#mark(name, [message])
    this.#focusInvalid()
    return invalid.length > 0 ? null : values
  }

  /** Return the links that were chosen, as a relationships object. */
  links() {
    return Object.fromEntries([...this.#linked].map(([name, data]) => [name, { data }]))
  }

  /** Show why a change was refused: at the fields that the errors point at, or below all. @param {unknown} error */
  show(error) {
    this.#clear()
    const failure = error instanceof Failure ? error : null
    const placed = (failure?.errors ?? []).filter(({ source, links, detail }) => {
      const name = source?.pointer?.split("/")[3] ?? ""
      const more = links?.about ? [" ", h("a", { href: `#${links.about}` }, texts.taken)] : []
      return this.#mark(name, [detail, ...more])
    })
    const isAll = failure && failure.errors.length > 0 && placed.length === failure.errors.length
    if (!isAll) this.message.textContent = /** @type {Error} */ (error).message
    this.#focusInvalid()
  }

  /** @param {string} name @param {(Node | string)[]} content */
  #mark(name, content) {
    const field = this.#fields.get(name)
    field?.error.append(...content)
    field?.control.setAttribute("aria-invalid", "true")
    return Boolean(field)
  }

  #clear() {
    this.message.textContent = ""
    for (const { error, control } of this.#fields.values()) {
      error.replaceChildren()
      control.removeAttribute("aria-invalid")
    }
  }

  #focusInvalid() {
    const invalid = this.element.querySelector("[aria-invalid]")
    if (invalid instanceof HTMLElement) invalid.focus()
  }
}

/** Return what is entered, to compare. @param {Control} control */
function stateOf(control) {
  if (control instanceof HTMLInputElement && control.type === "checkbox") return control.checked
  return control.validity.badInput || control.value
}

let staysOpen = false

/**
 * Open the dialog that creates resources, one or several in a row.
 * @param {Type} type
 * @param {{ onCreated: (resource: Resource) => unknown, text?: string, isSingle?: boolean }} options
 *   onCreated: called when the dialog has closed, with the last one. text: what it is called
 */
export function openCreation(type, { onCreated, text = "", isSingle = false }) {
  const holder = h("div")
  const begin = () => {
    const begun = new Inputs(type, null)
    protect(begun)
    holder.replaceChildren(begun.element)
    begun.focus()
    return begun
  }
  let inputs = begin()
  /** @type {Resource | null} */
  let last = null
  const again = h("input", { type: "checkbox", id: newId(), change: () => (staysOpen = again.checked) })
  again.checked = staysOpen
  const create = h("button", { class: "primary" }, texts.create)
  const send = async () => {
    const attributes = inputs.read()
    if (!attributes) return
    const data = { type: type.name, attributes, relationships: inputs.links() }
    const query = type.display ? { [`fields[${type.name}]`]: type.display.name } : {}
    const document = await api.change("POST", type.path, { query, body: { data } })
    const created = (last = /** @type {Resource} */ (document?.data))
    if (!isSingle) {
      announce(texts.created(nameOf(type, created)), { offer: [texts.open, `#${type.path}/${created.id}`] })
    }
    if (again.checked && !isSingle) inputs = begin()
    else dialog.close()
  }
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault()
    unlessBusy(create, send).catch((error) => inputs.show(error))
  }
  const another = h("label", { class: "check", for: again.id }, again, texts.another)
  const form = h("form", { submit, novalidate: true }, holder, buttons(isSingle ? null : another, create))
  const dialog = openDialog(texts.add(type.label), [form], { mayClose: () => !inputs.isDirty || askToLeave() })
  dialog.addEventListener("close", () => {
    protect(null)
    if (last) onCreated(last)
  })
  inputs.focus()
  if (text) inputs.enter(text)
  return dialog
}
