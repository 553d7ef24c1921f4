/** The access token: asking for it, keeping it, and what it allows. */

import { Failure } from "./api.js"
import { button, buttons, byId, field, h, openDialog } from "./dom.js"
import { texts } from "./texts.js"

/** @import { App } from "./app.js" */
/** @typedef {{ name: string, read: string[], write: string[] }} Access */

const STORED = "registry-token"

/**
 * Return what a token allows; null if the registry refuses it. Raises other Failures.
 * @param {App} app
 * @param {string} token
 * @returns {Promise<Access | null>}
 */
async function verify(app, token) {
  app.api.token = token
  try {
    const response = await app.api.fetch("GET", "/", { asks: false })
    return (await response.json()).meta.access
  } catch (error) {
    app.api.token = null
    if (error instanceof Failure && (error.status === 401 || error.status === 400)) return null
    throw error
  }
}

/**
 * Return what the token that is kept for this tab allows, or the one that is then asked for.
 * @param {App} app
 * @param {string} help
 * @returns {Promise<Access>}
 */
export async function requireAccess(app, help) {
  const kept = sessionStorage.getItem(STORED)
  const access = kept && (await verify(app, kept))
  if (access) return access
  sessionStorage.removeItem(STORED)
  return askForToken(app, help)
}

/**
 * Ask for a token until one is accepted.
 * @param {App} app
 * @param {string} help
 * @returns {Promise<Access>}
 */
function askForToken(app, help) {
  return new Promise((resolve) => {
    const input = h("input", {
      id: "token",
      type: "password",
      autocomplete: "off",
      spellcheck: "false",
    })
    const keep = h("input", { id: "keep", type: "checkbox" })
    const error = h("p", { role: "alert", class: "error", id: "token-error" })
    input.setAttribute("aria-describedby", error.id)
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault()
      const token = input.value.trim()
      error.textContent = ""
      try {
        // A header can contain nothing else.
        const access = /^[!-~]+$/.test(token) ? await verify(app, token) : null
        if (!access) throw new Error(texts.tokenRefused)
        if (keep.checked) sessionStorage.setItem(STORED, token)
        isDone = true
        dialog.close()
        resolve(access)
      } catch (failure) {
        error.textContent = /** @type {Error} */ (failure).message
        input.focus()
      }
    }
    const form = h(
      "form",
      { submit },
      h("p", {}, help),
      field(texts.token, input, error),
      h("label", { class: "check", for: "keep" }, keep, texts.tokenKeep),
      buttons(h("button", { class: "primary" }, texts.tokenEnter)),
    )
    let isDone = false
    const dialog = openDialog(texts.tokenTitle, [form], { mayClose: () => isDone })
    input.focus()
  })
}

/** Forget the token, and ask for another one. */
function forget() {
  sessionStorage.removeItem(STORED)
  location.reload()
}

/**
 * Show the button that tells what the token allows.
 * @param {App} app
 * @param {Access} access
 */
export function showAccess(app, access) {
  const list = (/** @type {string[]} */ names) => {
    const types = [...app.description.types.values()].filter((one) => names.includes(one.name))
    return types.map((one) => one.plural).join(", ") || texts.nothing
  }
  const open = () => {
    openDialog(access.name, [
      h(
        "dl",
        {},
        h("dt", {}, texts.mayRead),
        h("dd", {}, list(access.read)),
        h("dt", {}, texts.mayWrite),
        h("dd", {}, list(access.write)),
      ),
      buttons(button(texts.tokenForget, forget)),
    ])
  }
  byId("access").replaceChildren(button(texts.access(access.name), open, { class: "quiet" }))
}

/**
 * Ask for another token when the present one is refused; one question for all requests.
 * @param {App} app
 */
export function askAgain(app) {
  /** @type {Promise<Access> | null} */
  let asking = null
  return async () => {
    if (!app.access) return false
    asking ??= requireAccess(app, texts.tokenExpired)
    try {
      app.changeAccess(await asking)
    } finally {
      asking = null
    }
    return true
  }
}
