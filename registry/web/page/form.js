/** Forms: the inputs of a type, their errors, and the dialog for new resources. */

import { Failure } from "./api.js"
import { nameOf } from "./description.js"
import { announce, ask, buttons, h, isBusy, newId, openDialog, whileBusy } from "./dom.js"
import { FindBox } from "./find.js"
import { texts } from "./texts.js"
import { controlFor, valueOf } from "./values.js"

/** @import { Identifier, Resource } from "./api.js" */
/** @import { App } from "./app.js" */
/** @import { Relationship, Type } from "./description.js" */
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

  /**
   * @param {App} app
   * @param {Type} type
   * @param {Record<string, any> | null} values those of the resource; null for a new one
   */
  constructor(app, type, values) {
    this.app = app
    this.type = type
    this.isNew = !values
    this.attributes = type.attributes.filter((one) => !one.readOnly)
    for (const attribute of this.attributes) {
      const value = values ? values[attribute.name] : attribute.default
      // A stored value must stay if it must not be null, also where creation has a default.
      const isRequired = attribute.required || (Boolean(values) && !attribute.nullable)
      const control = controlFor({ ...attribute, required: isRequired }, value)
      this.#add(attribute.name, attribute.label, control, attribute.description, isRequired)
    }
    const links = app.links(type, false).filter((one) => one.writable && app.mayWrite(one.target))
    for (const link of this.isNew ? links : []) this.#addLink(link)
    this.message = h("p", { role: "alert", class: "error" })
    const all = [...this.#fields.values()].map((one) => one.element)
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
    const element = h(
      "div",
      { class: "field" },
      h("label", { for: id }, label, mark),
      shown,
      hint,
      error,
    )
    this.#fields.set(name, { element, error, control, first: stateOf(control) })
  }

  /** @param {Relationship} link */
  #addLink(link) {
    const target = this.app.typeOf(link.target)
    const box = new FindBox(
      this.app,
      [target],
      (found) => {
        if (!found.resource) return
        this.#linked.set(link.name, { type: target.name, id: found.resource.id })
        box.input.value = found.name
      },
      { label: link.label, placeholder: texts.choose },
    )
    box.input.addEventListener("input", () => this.#linked.delete(link.name))
    this.#add(link.name, link.label, box.input, "", false)
  }

  /** Whether something was entered that would be lost. */
  get isDirty() {
    return [...this.#fields.values()].some((one) => stateOf(one.control) !== one.first)
  }

  /** Focus the first input. */
  focus() {
    this.#fields.values().next().value?.control.focus()
  }

  /**
   * Enter words into the first text inputs, one each and the rest into the last: of a name.
   * @param {string} text
   */
  enter(text) {
    const texts = this.attributes.filter((one) => one.kind === "text" && one.required)
    const words = text.split(/\s+/)
    for (const [index, { name }] of texts.entries()) {
      const { control } = /** @type {Field} */ (this.#fields.get(name))
      control.value = index === texts.length - 1 ? words.join(" ") : (words.shift() ?? "")
    }
  }

  /**
   * Return the attributes that were entered: those of a stored resource that were changed, as an
   * input can round what is stored. If one is not valid, show that, and return null.
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

  /**
   * Show why a change was refused: at the fields that the errors point at, or below all.
   * @param {unknown} error
   */
  show(error) {
    this.#clear()
    const failure = error instanceof Failure ? error : null
    const placed = (failure?.errors ?? []).filter((one) => {
      const name = one.source?.pointer?.split("/")[3] ?? ""
      const about = one.links?.about
      const more = about ? [" ", h("a", { href: `#${about}` }, texts.taken)] : []
      return this.#mark(name, [one.detail, ...more])
    })
    const isAll = failure && failure.errors.length > 0 && placed.length === failure.errors.length
    if (!isAll) this.message.textContent = /** @type {Error} */ (error).message
    this.#focusInvalid()
  }

  /**
   * @param {string} name
   * @param {(Node | string)[]} content
   */
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

/**
 * Return what is entered, to compare.
 * @param {Control} control
 */
function stateOf(control) {
  if (control instanceof HTMLInputElement && control.type === "checkbox") return control.checked
  return control.validity.badInput || control.value
}

/** Ask whether what was typed may be lost. */
export function askToLeave() {
  const help = h("p", {}, texts.unsavedHelp)
  return ask(texts.unsavedTitle, [help], texts.leave, { isDanger: true, no: texts.stay })
}

let staysOpen = false

/**
 * Open the dialog that creates resources, one or several in a row.
 * @param {App} app
 * @param {Type} type
 * @param {{ onCreated?: (resource: Resource) => void, text?: string }} [options]
 *   onCreated: called with the only one; without it, a note tells of each. text: what it is called
 */
export function openCreation(app, type, { onCreated, text = "" } = {}) {
  const holder = h("div")
  const begin = () => {
    const begun = new Inputs(app, type, null)
    app.pending = begun
    holder.replaceChildren(begun.element)
    begun.focus()
    return begun
  }
  let inputs = begin()
  const again = h("input", { type: "checkbox", id: newId() })
  again.checked = staysOpen
  again.addEventListener("change", () => (staysOpen = again.checked))
  const create = h("button", { class: "primary" }, texts.create)
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault()
    if (isBusy(create)) return
    const attributes = inputs.read()
    if (!attributes) return
    const data = { type: type.name, attributes, relationships: inputs.links() }
    await whileBusy(create, async () => {
      const query = type.display ? { [`fields[${type.name}]`]: type.display.name } : {}
      const document = await app.api.change("POST", type.path, { query, body: { data } })
      const created = /** @type {Resource} */ (document?.data)
      if (onCreated) {
        dialog.close()
        return onCreated(created)
      }
      announce(texts.created(nameOf(type, created)), {
        link: [texts.open, `#${type.path}/${created.id}`],
      })
      if (again.checked) inputs = begin()
      else dialog.close()
      app.refresh()
    }).catch((error) => inputs.show(error))
  }
  const another = h("label", { class: "check", for: again.id }, again, texts.another)
  const footer = buttons(onCreated ? null : another, create)
  const form = h("form", { submit, novalidate: true }, holder, footer)
  const mayClose = () => !inputs.isDirty || askToLeave()
  const dialog = openDialog(texts.add(type.label), [form], { mayClose })
  dialog.addEventListener("close", () => (app.pending = null))
  inputs.focus()
  if (text) inputs.enter(text)
}
