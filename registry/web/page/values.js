/** Values of attributes: how they are shown, entered, and read from what was entered. */

import { h } from "./dom.js"
import { texts } from "./texts.js"

/** @import { Attribute } from "./types.js" */
/** @typedef {HTMLInputElement | HTMLSelectElement} Control */

const integers = new Intl.NumberFormat()
const days = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" })
const times = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" })
const exactTimes = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" })

/**
 * Return what shows a value: in the locale of the browser, in its time zone.
 * @param {Attribute} attribute
 * @param {any} value
 * @returns {Node | string}
 */
export function shown(attribute, value) {
  if (value === null || value === undefined || value === "") {
    return h("span", { class: "empty" }, texts.none)
  }
  if (attribute.kind === "time") {
    const time = new Date(value)
    return h("time", { datetime: value, title: exactTimes.format(time) }, times.format(time))
  }
  if (attribute.kind === "text") return h("bdi", {}, value)
  return plain(attribute, value)
}

/** Return a value as text. @param {Attribute} attribute @param {any} value @returns {string} */
export function plain(attribute, value) {
  if (value === null || value === undefined) return texts.none
  switch (attribute.kind) {
    case "boolean":
      return value ? texts.yes : texts.no
    case "integer":
      return integers.format(value)
    case "decimal": {
      // As many digits as were entered; formatting a string keeps all of them exact.
      const digits = String(value).split(".")[1]?.length ?? 0
      return new Intl.NumberFormat(undefined, { minimumFractionDigits: digits }).format(value)
    }
    case "date":
      return days.format(new Date(`${value}T00:00:00Z`))
    case "time":
      return times.format(new Date(value))
    case "object":
      return Object.entries(value)
        .map(([name, member]) => `${name}: ${member?.id ?? member}`)
        .join(" · ")
    default:
      return String(value)
  }
}

/**
 * Return the input for an attribute.
 * @param {Attribute} attribute
 * @param {any} value the present one, or null
 * @returns {Control}
 */
export function controlFor(attribute, value) {
  const { kind, required, nullable } = attribute
  if (kind === "choice" || (kind === "boolean" && nullable)) {
    const choices = (attribute.enum ?? ["true", "false"]).filter((choice) => choice !== null)
    const option = (/** @type {string} */ choice) =>
      h("option", { value: choice, selected: String(value) === choice }, labelOfChoice(kind, choice))
    const none = h("option", { value: "" }, texts.none)
    const isEmpty = nullable || value === null || value === undefined
    return h("select", { required }, isEmpty && none, ...choices.map(option))
  }
  if (kind === "boolean") return h("input", { type: "checkbox", checked: Boolean(value) })
  const forms = {
    text: { type: "text", maxlength: attribute.maxLength, dir: "auto" },
    email: { type: "email", maxlength: attribute.maxLength },
    integer: { type: "number", step: "1" },
    decimal: { type: "number", step: "any" },
    date: { type: "date", max: "9999-12-31" },
    time: { type: "datetime-local", step: "1" },
    object: {},
  }
  const control = h("input", { ...forms[kind], required, autocomplete: "off" })
  control.value = kind === "time" && value ? localTime(value) : String(value ?? "")
  return control
}

/**
 * Return the value that was entered, null if none. Throws a sentence for people if it is not valid.
 * @param {Attribute} attribute
 * @param {Control} control
 * @returns {any}
 */
export function valueOf(attribute, control) {
  const { kind } = attribute
  if (control instanceof HTMLInputElement) {
    if (control.type === "checkbox") return control.checked
    if (control.validity.badInput) throw texts.fieldInvalid[kind]
  }
  const text = kind === "text" ? control.value : control.value.trim()
  if (text === "") {
    if (attribute.required) throw texts.fieldRequired
    return null
  }
  return parsed(attribute, text)
}

/** Show why a value is not valid, until it is changed. @param {Control} control @param {string} message */
export function refuse(control, message) {
  control.setCustomValidity(message)
  control.reportValidity()
  control.addEventListener("input", () => control.setCustomValidity(""), { once: true })
}

/**
 * Return the JSON form of text that is not empty. Throws a sentence for people.
 * @param {Attribute} attribute
 * @param {string} text
 */
export function parsed({ kind }, text) {
  if (kind === "boolean") return text === "true"
  if (kind === "time") return new Date(text).toISOString()
  if (kind !== "integer") return text
  if (!Number.isInteger(Number(text))) throw texts.fieldInvalid[kind]
  if (!Number.isSafeInteger(Number(text))) throw texts.notSafe
  return Number(text)
}

/** @param {string} kind @param {string} choice */
function labelOfChoice(kind, choice) {
  if (kind === "choice") return choice
  return choice === "true" ? texts.yes : texts.no
}

/** Return a time as the input for times has it: local, to the second. @param {string} value */
function localTime(value) {
  const time = new Date(value)
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}
