/** What can be done to several resources at once, with one question before. Each returns what failed. */

import { announce, ask } from "./dialogs.js"
import { field, h } from "./dom.js"
import { chooseResource } from "./form.js"
import { performAll, relink } from "./operations.js"
import { countedOf } from "./types.js"
import { controlFor, valueOf } from "./values.js"

/** @param {Type} type @param {string[]} ids @param {Relationship} link */
export async function assign(type, ids, link) {
  const target = await chooseResource(`Assign ${countedOf(type, ids.length)}`, link.target)
  return target && relink(type, link, ids, target)
}

/** @param {Type} type @param {string[]} ids @param {Relationship} link */
export async function unassign(type, ids, link) {
  const agrees = await ask(`Unassign ${countedOf(type, ids.length)}?`, [], "Unassign")
  return agrees ? relink(type, link, ids, null) : null
}

/** @param {Type} type @param {string[]} ids */
export async function remove(type, ids) {
  const help = [h("p", {}, "This cannot be undone.")]
  const title = `Delete ${countedOf(type, ids.length)}?`
  if (!(await ask(title, help, "Delete", { isDanger: true }))) return null
  return perform(type, ids, "Deleted", (id) => ({ op: "remove", ref: { type: type.name, id } }))
}

/** Ask for an attribute and its value, and set it. @param {Type} type @param {string[]} ids */
export async function setAttribute(type, ids) {
  const attributes = type.attributes.filter((attribute) => !attribute.readOnly)
  const chosen = () => /** @type {Attribute} */ (attributes.find(({ name }) => name === names.value))
  const place = h("div")
  let control = controlFor(attributes[0], null)
  const showValue = () => {
    control = controlFor({ ...chosen(), required: !chosen().nullable }, null)
    place.replaceChildren(field("Value", control))
  }
  const options = attributes.map(({ name, label }) => new Option(label, name))
  const names = h("select", { change: showValue }, ...options)
  showValue()
  const answer = ask(`Change ${countedOf(type, ids.length)}`, [field("Attribute", names), place], "Apply")
  names.focus()
  if (!(await answer)) return null
  const data = { type: type.name, attributes: { [names.value]: valueOf(chosen().kind, control) } }
  return perform(type, ids, "Changed", (id) => ({ op: "update", data: { ...data, id } }))
}

/**
 * Execute an operation on each, and tell for how many that worked.
 * @param {Type} type @param {string[]} ids @param {string} verb @param {(id: string) => object} operationOf
 */
async function perform(type, ids, verb, operationOf) {
  const failures = await performAll(ids, operationOf)
  const done = ids.length - failures.size
  if (done > 0) announce(`${verb} ${countedOf(type, done)}.`)
  return failures
}
