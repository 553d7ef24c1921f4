/** Values of attributes: how they are shown, entered, and read from what was entered. */

import { h } from "./dom.js"
import { NONE, number } from "./texts.js"
import { labelOf } from "./types.js"

const days = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" })
const times = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" })
const exactTimes = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" })

/**
 * Return what shows a value: in the locale of the browser, in its time zone.
 * @param {Attribute} attribute @param {any} value @returns {Node | string}
 */
export function shown(attribute, value) {
  if (value === null || value === undefined || value === "") return h("span", { class: "empty" }, NONE)
  if (attribute.kind === "text") return h("bdi", {}, value)
  const text = plain(attribute, value)
  if (attribute.kind !== "time") return text
  return h("time", { datetime: value, title: exactTimes.format(new Date(value)) }, text)
}

/** Return a value as text. @param {Pick<Attribute, "kind">} attribute @param {any} value @returns {string} */
export function plain({ kind }, value) {
  if (value === null || value === undefined) return NONE
  if (kind === "boolean") return value ? "Yes" : "No"
  if (kind === "integer") return number(value)
  if (kind === "date") return days.format(new Date(value))
  if (kind === "time") return times.format(new Date(value))
  if (kind === "object") {
    return Object.entries(value).map(([name, part]) => `${labelOf(name)}: ${part?.id ?? part}`).join(" · ")
  }
  if (kind !== "decimal") return String(value)
  // As many digits as were entered; formatting a string keeps all of them exact.
  const digits = String(value).split(".")[1]?.length ?? 0
  return new Intl.NumberFormat(undefined, { minimumFractionDigits: digits }).format(value)
}

/** The attributes of inputs; beyond the safe integers, JSON is not exact in a browser. */
const INPUTS = {
  text: { type: "text", dir: "auto" },
  email: { type: "text", inputmode: "email" },
  integer: { type: "number", min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER },
  decimal: { type: "number", step: "any" },
  date: { type: "date", max: "9999-12-31" },
  time: { type: "datetime-local", step: 1 },
  object: {},
}

/**
 * Return the input for an attribute.
 * @param {Attribute} attribute @param {any} value the present one, or null @returns {Control}
 */
export function controlFor({ kind, enum: choices = [], nullable, required, maxLength }, value) {
  if (kind === "boolean" && !nullable) return h("input", { type: "checkbox", checked: Boolean(value) })
  if (kind === "choice" || kind === "boolean") {
    const values = kind === "choice" ? choices.filter((choice) => choice !== null) : ["true", "false"]
    const present = values.find((choice) => choice === String(value)) ?? ""
    const options = (nullable || !present ? ["", ...values] : values).map((choice) => {
      const label = kind === "boolean" && choice ? plain({ kind }, choice === "true") : choice || NONE
      return new Option(label, choice, choice === present, choice === present)
    })
    return h("select", { required }, ...options)
  }
  const control = h("input", { ...INPUTS[kind], maxlength: maxLength, required, autocomplete: "off" })
  control.value = kind === "time" && value ? localTime(value) : String(value ?? "")
  control.defaultValue = control.value // which may be less than what is stored
  return control
}

/** Return the value that was entered, if it is valid; null if none. @param {Kind} kind @param {Control} control */
export function valueOf(kind, control) {
  if (control.type === "checkbox") return /** @type {HTMLInputElement} */ (control).checked
  const text = kind === "text" ? control.value : control.value.trim()
  return text === "" ? null : parsed(kind, text)
}

/** Return the JSON form of a valid text that is not empty. @param {Kind} kind @param {string} text */
export function parsed(kind, text) {
  if (kind === "boolean") return text === "true"
  if (kind === "time") return new Date(text).toISOString()
  return kind === "integer" ? Number(text) : text
}

/** Return a time as the input for times has it: local, to the second. @param {string} value */
function localTime(value) {
  const time = new Date(value)
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}
