/** What can be done to several resources at once, with one question before. Each returns what failed. */

import { chooseResource } from "./choose.js"
import { announce, ask, openDialog } from "./dialogs.js"
import { buttons, field, h } from "./dom.js"
import { itemsOf, performAll, relink } from "./operations.js"
import { texts } from "./texts.js"
import { countedOf } from "./types.js"
import { controlFor, refuse, valueOf } from "./values.js"

/** @import { Failures, Target } from "./operations.js" */
/** @import { Attribute, Relationship, Type } from "./types.js" */

/** @param {Type} type @param {string[]} ids @param {Relationship} link */
export async function assign(type, ids, link) {
  const target = await chooseResource(texts.assignTitle(countedOf(type, ids.length)), link.target)
  return target && relinkAll(type, ids, link, target)
}

/** @param {Type} type @param {string[]} ids @param {Relationship} link */
export async function unassign(type, ids, link) {
  const agrees = await ask(texts.unassignQuestion(countedOf(type, ids.length)), [], texts.unassign)
  return agrees ? relinkAll(type, ids, link, null) : null
}

/** @param {Type} type @param {string[]} ids @param {Relationship} link @param {Target | null} target */
async function relinkAll(type, ids, link, target) {
  const items = await itemsOf(type, ids, link)
  const found = new Set(items.map((item) => item.id))
  const failures = await relink(type, link, items, target)
  for (const id of ids) if (!found.has(id)) failures.set(id, texts.deleted)
  return failures
}

/** @param {Type} type @param {string[]} ids */
export async function remove(type, ids) {
  const help = [h("p", {}, texts.deleteFinal)]
  const title = texts.deleteQuestion(countedOf(type, ids.length))
  if (!(await ask(title, help, texts.delete, { isDanger: true }))) return null
  return perform(type, ids, texts.deletedName, (id) => ({ op: "remove", ref: { type: type.name, id } }))
}

/**
 * Ask for an attribute and its value, and set it.
 * @param {Type} type
 * @param {string[]} ids
 * @returns {Promise<Failures | null>}
 */
export function setAttribute(type, ids) {
  const attributes = type.attributes.filter((attribute) => !attribute.readOnly)
  const options = attributes.map(({ name, label }) => h("option", { value: name }, label))
  const chosen = () => {
    const attribute = /** @type {Attribute} */ (attributes.find(({ name }) => name === select.value))
    return { ...attribute, required: !attribute.nullable }
  }
  const choose = () => {
    control = controlFor(chosen(), null)
    control.id = "set-value"
    place.replaceChildren(h("label", { for: control.id }, texts.value), control)
  }
  const select = h("select", { id: "set-name", change: choose }, ...options)
  const place = h("div", { class: "field" })
  let control = controlFor(chosen(), null)
  choose()
  return new Promise((resolve) => {
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault()
      const { name } = chosen()
      try {
        const value = valueOf(chosen(), control)
        const data = (/** @type {string} */ id) => ({ type: type.name, id, attributes: { [name]: value } })
        resolve(perform(type, ids, texts.changedAll, (id) => ({ op: "update", data: data(id) })))
        dialog.close()
      } catch (message) {
        refuse(control, String(message))
      }
    }
    const apply = buttons(h("button", { class: "primary" }, texts.apply))
    const form = h("form", { submit }, field(texts.attribute, select), place, apply)
    const dialog = openDialog(texts.setTitle(countedOf(type, ids.length)), [form])
    dialog.addEventListener("close", () => resolve(null))
  })
}

/**
 * Execute an operation on each, and tell for how many that worked.
 * @param {Type} type
 * @param {string[]} ids
 * @param {(what: string) => string} text
 * @param {(id: string) => object} operationOf
 */
async function perform(type, ids, text, operationOf) {
  const failures = await performAll(ids, operationOf)
  const done = ids.length - failures.size
  if (done > 0) announce(text(countedOf(type, done)))
  return failures
}
