/** Filters: those in force, and the dialog that asks for one by the operators of its type. */

import { ask } from "./dialogs.js"
import { button, field, h } from "./dom.js"
import { labelOf, operators } from "./types.js"
import { controlFor, parsed } from "./values.js"

/**
 * Return the filters in force, each with a button that removes it; null if there are none.
 * @param {Type} type @param {URLSearchParams} state @param {(name: string) => void} onRemove
 */
export function chips(type, state, onRemove) {
  const filters = [...state].filter(([name]) => name.startsWith("filter["))
  const items = filters.map(([name, value]) => {
    const [, compared, operator = "eq"] = /^filter\[([^\]]+)\](?:\[(\w+)\])?$/.exec(name) ?? []
    const filter = type.filters.find((other) => other.name === compared)
    const isNull = operator === "null"
    const words = operatorLabel(filter, isNull ? (value === "true" ? "isNull" : "isNotNull") : operator)
    const condition = `${labelOf(compared ?? name)} ${words ?? operator}${isNull ? "" : ` ${value}`}`
    const text = !filter && compared === "search" ? `contains “${value}”` : condition
    const remove = button("×", () => onRemove(name), { "aria-label": `Remove: ${text}`, class: "quiet" })
    return h("li", {}, h("bdi", {}, text), remove)
  })
  return items.length > 0 ? h("ul", { class: "chips", "aria-label": "Filter" }, ...items) : null
}

/**
 * Ask for a filter; return its query parameter, or null.
 * @param {Type} type @param {string} [preferred] what to filter by; by default, the name of the resource
 */
export async function askForFilter(type, preferred = type.display?.name) {
  const fields = type.filters.filter(({ name }) => !name.endsWith(".id"))
  const filter = () => /** @type {Filter} */ (fields.find(({ name }) => name === names.value))
  const place = h("div")
  let control = controlFor(fields[0].value, null)
  const showValue = () => {
    const operand = operators[operator.value]?.operand
    const kind = operand === "value" ? filter().value.kind : "text"
    control = controlFor({ ...filter().value, kind, nullable: kind === "boolean", required: true }, null)
    const hint = operand === "list" && h("small", {}, "Separate several values by commas.")
    place.replaceChildren(field("Value", control, hint))
    place.hidden = control.disabled = !operand
  }
  const showOperators = () => {
    const choices = filter().operators.flatMap((name) => (name === "null" ? ["isNull", "isNotNull"] : name))
    // The most useful one for text comes first.
    choices.sort((name, other) => Number(other === "contains") - Number(name === "contains"))
    operator.replaceChildren(...choices.map((name) => new Option(operatorLabel(filter(), name), name)))
    showValue()
  }
  const options = fields.map(({ name, label }) => new Option(label, name, false, name === preferred))
  const names = h("select", { change: showOperators }, ...options)
  const operator = h("select", { change: showValue })
  showOperators()
  const content = [field("Column", names), field("Condition", operator), place]
  const answer = ask("Filter", content, "Apply")
  control.focus()
  if (!(await answer)) return null
  const operand = operators[operator.value]?.operand
  if (!operand) return { [`filter[${names.value}][null]`]: String(operator.value === "isNull") }
  const { value } = control
  const isList = operand === "list"
  const compared = isList ? value.trim().split(/\s*,\s*/).join(",") : String(parsed(filter().value.kind, value))
  return { [`filter[${names.value}][${operator.value}]`]: compared }
}

/**
 * Return what people read of an operator, null being two of them; nothing of an unknown one.
 * @param {Filter | undefined} filter @param {string} name
 */
function operatorLabel(filter, name) {
  if (name === "isNull") return "is empty"
  if (name === "isNotNull") return "is not empty"
  const isTime = filter?.value.kind === "date" || filter?.value.kind === "time"
  return isTime ? operators[name]?.time_label : operators[name]?.label
}
