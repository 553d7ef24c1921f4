/** Forms: the inputs of a type, their errors, and the dialogs that create and choose resources. */

import { api, Failure } from "./api.js"
import { announce, openDialog } from "./dialogs.js"
import { buttons, entered, field, h, isChanged, newId, setInitial, unlessBusy } from "./dom.js"
import { findBox } from "./find.js"
import { linkable, nameOf, typeOf } from "./types.js"
import { controlFor, valueOf } from "./values.js"

/**
 * An input. attribute: none for a link.
 * @typedef {{ element: HTMLElement, error: HTMLElement, control: Control, attribute?: Attribute }} Field
 */

/** A form with the inputs for the attributes of a type, and for the links of a new resource. */
export class Form {
  /** @type {Map<string, Field>} */
  #fields = new Map()

  /** The links that were chosen, as the relationships of a resource. @type {Record<string, Linkage>} */
  links = {}

  /** What was entered when the form was sent. @type {Map<Control, string>} */
  #sent = new Map()

  /** What has become of the resource, or why a change was refused. */
  message = h("p", { role: "alert", class: "error" })

  /**
   * @param {Type} type @param {Record<string, any> | null} values those of the resource; null for a new one
   * @param {string} label of the button that sends
   * @param {(values: Record<string, any>) => Promise<unknown>} send called with the attributes if all inputs are valid
   * @param {...Child} others before that button
   */
  constructor(type, values, label, send, ...others) {
    this.isNew = !values
    for (const attribute of type.attributes.filter(({ readOnly }) => !readOnly)) {
      const { name, label, nullable } = attribute
      // A stored value must stay if it must not be null, also where creation has a default.
      const required = attribute.required || (!this.isNew && !nullable)
      const control = controlFor({ ...attribute, required }, values ? values[name] : attribute.default)
      this.#add(name, label, control, attribute)
    }
    for (const link of this.isNew ? linkable(type) : []) this.#addLink(link)
    const all = [...this.#fields.values()].map(({ element }) => element)
    const agree = h("button", { class: "primary" }, label)
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault()
      unlessBusy(agree, () => this.#send(send)).catch((error) => this.show(error))
    }
    const inputs = h("div", { class: "inputs" }, ...all, this.message)
    const reset = () => (this.links = {})
    this.element = h("form", { submit, reset, novalidate: true }, inputs, buttons(...others, agree))
  }

  /** @param {string} name @param {string} label @param {Control} control @param {Attribute} [attribute] */
  #add(name, label, control, attribute) {
    const [hintId, errorId] = [newId(), newId()]
    control.setAttribute("aria-describedby", `${hintId} ${errorId}`)
    const hint = attribute?.description && h("small", { id: hintId }, attribute.description)
    const error = h("p", { id: errorId, class: "error" })
    const element = field(label, control, hint, error)
    this.#fields.set(name, { element, error, control, attribute })
  }

  /** @param {Relationship} link */
  #addLink({ name, label, target }) {
    const pick = (/** @type {Type} */ _, /** @type {Resource} */ { id }, /** @type {string} */ text) => {
      this.links[name] = { data: { type: target, id } }
      input.value = text
      input.setCustomValidity("")
    }
    const input = findBox([typeOf(target)], pick, { label })
    input.addEventListener("input", () => {
      delete this.links[name]
      input.setCustomValidity(input.value.trim() && "Choose one of the results, or leave this empty.")
    })
    this.#add(name, label, input)
  }

  /** Focus the first input. */
  focus() {
    this.#fields.values().next().value?.control.focus()
  }

  /**
   * Go on with what was sent and is stored now. Return whether something was typed since, which must stay.
   * @param {string[]} [names] those of attributes that the stored resource has now
   */
  goOn(names = []) {
    this.#clear()
    for (const name of names) {
      const { control } = /** @type {Field} */ (this.#fields.get(name))
      setInitial(control, this.#sent.get(control) ?? "")
    }
    return [...this.#sent].some(([control, state]) => entered(control) !== state)
  }

  /** Enter words into the first text inputs, one each and the rest into the last: of a name. @param {string} text */
  enter(text) {
    const isNamed = (/** @type {Field} */ { attribute }) => attribute?.kind === "text" && attribute.required
    const named = [...this.#fields.values()].filter(isNamed)
    const words = text.split(/\s+/)
    for (const [index, { control }] of named.entries()) {
      control.value = words.splice(0, index === named.length - 1 ? words.length : 1).join(" ")
    }
  }

  /**
   * Send the attributes that were entered: those of a stored resource that were changed, as an input can round what is
   * stored. If one is not valid, only show that.
   * @param {(values: Record<string, any>) => Promise<unknown>} send
   */
  #send(send) {
    this.#clear()
    /** @type {Record<string, any>} */
    const values = {}
    for (const [name, { attribute, control }] of this.#fields) {
      this.#sent.set(control, entered(control))
      if (!this.isNew && !isChanged(control)) continue
      if (!control.validity.valid) this.#mark(name, control.validationMessage)
      else if (attribute) values[name] = valueOf(attribute.kind, control)
    }
    return this.#focusInvalid() || send(values)
  }

  /** Show why a change was refused: at the fields that the errors point at, or below all. @param {unknown} error */
  show(error) {
    this.#clear()
    const errors = error instanceof Failure ? error.errors : []
    const placed = errors.filter(({ source, links, detail }) => {
      const more = links?.about ? [" ", h("a", { href: `#${links.about}` }, "Open the one that has it")] : []
      return this.#mark(source?.pointer?.split("/")[3] ?? "", detail, ...more)
    })
    const isAll = placed.length > 0 && placed.length === errors.length
    if (!isAll) this.message.textContent = /** @type {Error} */ (error).message
    this.#focusInvalid()
  }

  /** @param {string} name @param {...(Node | string)} content */
  #mark(name, ...content) {
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

  /** Focus the first input that is marked; return whether there is any. */
  #focusInvalid() {
    const invalid = [...this.#fields.values()].find(({ control }) => control.hasAttribute("aria-invalid"))
    invalid?.control.focus()
    return Boolean(invalid)
  }
}

let staysOpen = false

/**
 * Open the dialog that creates resources, one or several in a row.
 * @param {Type} type
 * @param {{ onCreated: (resource: Resource) => unknown, text?: string, isSingle?: boolean }} options
 *   onCreated: called when the dialog has closed, with the last one. text: what it is called
 */
export function openCreation(type, { onCreated, text = "", isSingle = false }) {
  /** @type {Resource | null} */
  let last = null
  const again = h("input", { type: "checkbox", id: newId(), checked: staysOpen })
  const send = async (/** @type {Record<string, any>} */ attributes) => {
    const data = { type: type.name, attributes, relationships: form.links }
    const query = type.display ? { [`fields[${type.name}]`]: type.display.name } : {}
    const document = await api.change("POST", type.path, { query, body: { data } })
    const created = (last = /** @type {Resource} */ (document?.data))
    const offer = h("a", { href: `#${type.path}/${created.id}` }, "Open")
    if (!isSingle) announce(`Created ${nameOf(type, created)}.`, { offer })
    staysOpen = again.defaultChecked = again.checked
    if (form.goOn() && !isSingle) return // it is for another one
    if (isSingle || !staysOpen) return dialog.close()
    form.element.reset()
    form.focus()
  }
  const another = h("label", { class: "check", for: again.id }, again, "Stay here to add another")
  const form = new Form(type, null, "Create", send, !isSingle && another)
  const dialog = openDialog(`New ${type.label.toLowerCase()}`, [form.element])
  dialog.addEventListener("close", () => last && onCreated(last))
  form.focus()
  if (text) form.enter(text)
}

/**
 * Ask for a resource; return it, or null if nobody chooses any.
 * @param {string} title @param {string} name of its type @returns {Promise<Target | null>}
 */
export function chooseResource(title, name) {
  return new Promise((resolve) => {
    const type = typeOf(name)
    const answer = (/** @type {Resource} */ found) => {
      resolve({ type: name, id: found.id, name: nameOf(type, found) })
      dialog.close()
    }
    const input = findBox([type], (_, resource) => answer(resource), {
      label: type.label,
      onNew: (_, text) => openCreation(type, { text, isSingle: true, onCreated: answer }),
    })
    const dialog = openDialog(title, [field(type.label, input)])
    dialog.addEventListener("close", () => resolve(null))
    input.focus()
  })
}
