/** Words that depend on numbers, and what errors mean for people. */

const numbers = new Intl.NumberFormat()

/** What is shown in place of no value. */
export const NONE = "—"

export const GONE = "Somebody else has deleted this meanwhile. What you typed is still here to copy."

/** @param {number} value */
export const number = (value) => numbers.format(value)

/** Return a number with its unit, as `2 rows`. @param {number} count @param {string} unit @param {string} [units] */
export const counted = (count, unit, units = `${unit}s`) => `${number(count)} ${count === 1 ? unit : units}`

/** @param {string} label */
export const withArticle = (label) => `${/^[aeiou]/i.test(label) ? "an" : "a"} ${label.toLowerCase()}`

/** Return what the registry says of an error, without the marks of code. @param {string} detail */
export function readable(detail) {
  return detail.replace(/`([^`]*)`/g, (_, code) => {
    const isName = /^[a-z][a-z0-9_]*(\.[a-z0-9_]+)*$/.test(code)
    return isName ? code.replaceAll("_", " ").replaceAll(".", ": ") : `“${code}”`
  })
}

/**
 * Return what happened, and what to do, in a sentence or two.
 * @param {number} status of the response; 0 if there was none
 * @param {ErrorObject[]} errors @param {number} retryAfter in seconds
 */
export function explained(status, errors, retryAfter) {
  const details = [...new Set(errors.map(({ detail }) => detail))].slice(0, 3).join(" ")
  const soon = retryAfter ? `in ${counted(retryAfter, "second")}` : "in a moment"
  /** @type {Record<number, string>} */
  const sentences = {
    0: "The registry cannot be reached. Check your connection, then try again: nothing is lost.",
    401: "Your access token is not valid. Enter another one to go on.",
    403: `Your access token does not allow this. ${details}`,
    404: "This does not exist any more.",
    409: details || "This does not fit what is stored.",
    412: "Somebody else has changed this meanwhile. What is shown is new: check it, and try again.",
    413: "This is more than the registry accepts at once. Send less.",
    422: `Please correct this: ${details}`,
    503: `The registry is busy or not available. Try again ${soon}: nothing is lost.`,
  }
  const other = status >= 500 ? "The registry has failed. Try again, or tell your administrator." : details
  return sentences[status] ?? (other || `The registry answered ${status}.`)
}
