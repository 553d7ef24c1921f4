/** What can be done to several resources at once, with one question before. Each returns what failed. */

import { chooseResource } from "./choose.js"
import { announce, ask } from "./dialogs.js"
import { field, h } from "./dom.js"
import { itemsOf, performAll, relink } from "./operations.js"
import { countedOf } from "./types.js"
import { controlFor, valueOf } from "./values.js"

/** @import { Target } from "./operations.js" */
/** @import { Attribute, Relationship, Type } from "./types.js" */

/** @param {Type} type @param {string[]} ids @param {Relationship} link */
export async function assign(type, ids, link) {
  const target = await chooseResource(`Assign ${countedOf(type, ids.length)}`, link.target)
  return target && relinkAll(type, ids, link, target)
}

/** @param {Type} type @param {string[]} ids @param {Relationship} link */
export async function unassign(type, ids, link) {
  const agrees = await ask(`Unassign ${countedOf(type, ids.length)}?`, [], "Unassign")
  return agrees ? relinkAll(type, ids, link, null) : null
}

/** @param {Type} type @param {string[]} ids @param {Relationship} link @param {Target | null} target */
async function relinkAll(type, ids, link, target) {
  const items = await itemsOf(type, ids, link)
  const found = new Set(items.map((item) => item.id))
  const failures = await relink(type, link, items, target)
  for (const id of ids) if (!found.has(id)) failures.set(id, "Deleted meanwhile")
  return failures
}

/** @param {Type} type @param {string[]} ids */
export async function remove(type, ids) {
  const help = [h("p", {}, "This cannot be undone.")]
  const title = `Delete ${countedOf(type, ids.length)}?`
  if (!(await ask(title, help, "Delete", { isDanger: true }))) return null
  return perform(type, ids, (what) => `Deleted ${what}.`, ({ id }) => ({ op: "remove", ref: { type: type.name, id } }))
}

/**
 * Ask for an attribute and its value, and set it.
 * @param {Type} type
 * @param {string[]} ids
 */
export async function setAttribute(type, ids) {
  const attributes = type.attributes.filter((attribute) => !attribute.readOnly)
  const chosen = () => /** @type {Attribute} */ (attributes.find(({ name }) => name === names.value))
  const place = h("div", { class: "field" })
  let control = controlFor(attributes[0], null)
  const showValue = () => {
    control = controlFor({ ...chosen(), required: !chosen().nullable }, null)
    control.id = "set-value"
    place.replaceChildren(h("label", { for: control.id }, "Value"), control)
  }
  const options = attributes.map(({ name, label }) => new Option(label, name))
  const names = h("select", { id: "set-name", change: showValue }, ...options)
  showValue()
  const title = `Change ${countedOf(type, ids.length)}`
  const answer = ask(title, [field("Attribute", names), place], "Apply")
  names.focus()
  if (!(await answer)) return null
  const data = { type: type.name, attributes: { [names.value]: valueOf(chosen().kind, control) } }
  return perform(type, ids, (what) => `Changed ${what}.`, ({ id }) => ({ op: "update", data: { ...data, id } }))
}

/**
 * Execute an operation on each, and tell for how many that worked.
 * @param {Type} type
 * @param {string[]} ids
 * @param {(what: string) => string} text
 * @param {(item: { id: string }) => object} operationOf
 */
async function perform(type, ids, text, operationOf) {
  const items = ids.map((id) => ({ id }))
  const failures = await performAll(items, operationOf)
  const done = ids.length - failures.size
  if (done > 0) announce(text(countedOf(type, done)))
  return failures
}
