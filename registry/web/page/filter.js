/** Filters: those in force, and the dialog that asks for one by the operators of its type. */

import { openDialog } from "./dialogs.js"
import { button, buttons, field as labelled, h } from "./dom.js"
import { texts } from "./texts.js"
import { labelOf, operators } from "./types.js"
import { controlFor, parsed, refuse } from "./values.js"

/** @import { Filter, Type } from "./types.js" */
/** @import { Control } from "./values.js" */

/**
 * Return the filters in force, each with a button that removes it; null if there are none.
 * @param {Type} type
 * @param {URLSearchParams} state
 * @param {(name: string) => void} onRemove
 */
export function chips(type, state, onRemove) {
  const filters = [...state].filter(([name]) => name.startsWith("filter["))
  const items = filters.map(([name, value]) => {
    const [, field, operator = "eq"] = /^filter\[([^\]]+)\](?:\[(\w+)\])?$/.exec(name) ?? []
    const filter = type.filters.find((other) => other.name === field)
    const isNull = operator === "null"
    const words = operatorLabel(filter, isNull ? (value === "true" ? "isNull" : "isNotNull") : operator)
    const isSearch = !filter && field === "search"
    const condition = `${labelOf(field ?? name)} ${words ?? operator}${isNull ? "" : ` ${value}`}`
    const text = isSearch ? texts.searched(value) : condition
    const remove = button("×", () => onRemove(name), { "aria-label": texts.remove(text), class: "quiet" })
    return h("li", {}, h("bdi", {}, text), remove)
  })
  return items.length > 0 ? h("ul", { class: "chips", "aria-label": texts.filter }, ...items) : null
}

/**
 * Ask for a filter.
 * @param {Type} type
 * @param {string | undefined} field what to filter by; by default, the name of the resource
 * @param {(name: string, value: string) => void} onChosen called with a query parameter
 */
export function openFilter(type, field, onChosen) {
  const chosen = field ?? type.display?.name
  const fields = type.filters.filter(({ name }) => !name.endsWith(".id"))
  const options = fields.map(({ name, label }) => h("option", { value: name, selected: name === chosen }, label))
  const names = h("select", { id: "filter-field" }, ...options)
  const operator = h("select", { id: "filter-operator" })
  const place = h("div", { class: "field" })
  const filter = () => /** @type {Filter} */ (fields.find(({ name }) => name === names.value))
  /** @type {Control} */
  let control = h("input")
  const showValue = () => {
    const operand = operators[operator.value]?.operand
    const kind = operand === "value" ? filter().value.kind : "text"
    control = controlFor({ ...filter().value, kind, nullable: kind === "boolean", required: true }, null)
    control.id = "filter-value"
    const hint = operand === "list" ? h("small", {}, texts.valuesHint) : ""
    place.replaceChildren(h("label", { for: control.id }, texts.value), control, hint)
    place.hidden = control.disabled = !operand
  }
  const showOperators = () => {
    const choices = filter().operators.flatMap((name) => (name === "null" ? ["isNull", "isNotNull"] : name))
    // The most useful one for text comes first.
    choices.sort((name, other) => Number(other === "contains") - Number(name === "contains"))
    operator.replaceChildren(...choices.map((name) => h("option", { value: name }, operatorLabel(filter(), name))))
    showValue()
  }
  names.addEventListener("change", showOperators)
  operator.addEventListener("change", showValue)
  showOperators()
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault()
    try {
      const found = condition(filter(), operator.value, control)
      dialog.close()
      onChosen(found.name, found.value)
    } catch (message) {
      refuse(control, String(message))
    }
  }
  const form = h(
    "form",
    { submit },
    labelled(texts.column, names),
    labelled(texts.condition, operator),
    place,
    buttons(h("button", { class: "primary" }, texts.apply)),
  )
  const dialog = openDialog(texts.filter, [form])
  control.focus()
}

/**
 * Return the query parameter of a filter. Throws a sentence for people if the value is not valid.
 * @param {Filter} filter
 * @param {string} operator
 * @param {Control} control
 */
function condition(filter, operator, control) {
  const name = `filter[${filter.name}]`
  if (operator === "isNull" || operator === "isNotNull") {
    return { name: `${name}[null]`, value: String(operator === "isNull") }
  }
  const text = control.value
  const isList = operators[operator]?.operand === "list"
  const value = isList ? text.split(/\s*,\s*/).join(",") : String(parsed(filter.value, text))
  return { name: `${name}[${operator}]`, value }
}

/**
 * Return what people read of an operator, null being two of them; nothing of an unknown one.
 * @param {Filter | undefined} filter
 * @param {string} name
 */
function operatorLabel(filter, name) {
  if (name === "isNull" || name === "isNotNull") return texts[name]
  const isTime = filter?.value.kind === "date" || filter?.value.kind === "time"
  return isTime ? operators[name]?.time_label : operators[name]?.label
}
