/** Requests to the registry: its documents, failures and waits. */

import { explained, readable } from "./texts.js"

const MEDIA_TYPE = "application/vnd.api+json"
const ATOMIC = `${MEDIA_TYPE}; ext="https://jsonapi.org/ext/atomic"`
const TIMEOUT_MS = 30_000
const MAX_WAIT_SECONDS = 10
const MAX_ATTEMPTS = 4
const MAX_PAGE_SIZE = 1_000

/** Beyond it, a stream is dead: the change feed without changes has a position every 15 seconds. */
const SILENCE_MS = 45_000

/**
 * accept: a media type to read as it arrives, as long as that takes. asks: whether for a valid token, if need be.
 * @typedef {{
 *   query?: Query, body?: unknown, file?: Blob, headers?: Record<string, string>, signal?: AbortSignal,
 *   accept?: string, asks?: boolean,
 * }} Options
 */

/** Return whether two identifiers are of the same resource. @param {Identifier} resource @param {Identifier} other */
export const isSame = (resource, other) => resource.type === other.type && resource.id === other.id

/** Return what a resource is linked to, as far as the document says. @param {Partial<Resource>} [resource] */
export const linkedTo = (resource) => Object.values(resource?.relationships ?? {}).flatMap((link) => link.data ?? [])

/** A request that was not answered as hoped. status: 0 if there was no answer. */
export class Failure extends Error {
  /** @param {number} status @param {ErrorObject[]} [errors] @param {number} [retryAfter] in seconds */
  constructor(status, errors = [], retryAfter = 0) {
    const told = errors.map((error) => ({ ...error, detail: readable(error.detail) }))
    super(explained(status, told, retryAfter))
    this.status = status
    this.errors = told
    this.retryAfter = retryAfter
  }
}

/** A client of the registry at the address of this page. */
class Api {
  /** The access token, if one is known. @type {string | null} */
  token = null

  /** Called if a request is refused without a valid token; whether to try again with a new one. */
  onUnauthorized = async () => false

  /** Called with the seconds to wait, before a busy registry is asked again. */
  onWait = (/** @type {number} */ _seconds) => {}

  /** The position in the change feed of the document that was read first, since it was reset. */
  position = ""

  /** Keys of additions that may have been executed, by path and body. @type {Map<string, string>} */
  #keys = new Map()

  /**
   * Return the document at a path. A busy registry is asked again, when it says so.
   * @param {string} path @param {Query} [query] @param {AbortSignal} [signal]
   */
  async get(path, query, signal) {
    return this.retry([503], signal, async () => {
      const response = await this.fetch("GET", path, { query, signal })
      this.position ||= response.headers.get("Registry-Position") ?? ""
      return { document: await arrived(response.json()), etag: response.headers.get("ETag") ?? "" }
    })
  }

  /**
   * Return at most so many resources of a collection, read page by page.
   * @param {string} path @param {Query} query @param {number} limit
   */
  async list(path, query, limit) {
    /** @type {Resource[]} */
    const resources = []
    /** @type {Query | null} */
    let page = {}
    while (page && resources.length < limit) {
      const size = String(Math.min(limit - resources.length, MAX_PAGE_SIZE))
      const { document } = await this.get(path, { ...query, ...page, "page[size]": size })
      resources.push(...document.data)
      page = document.meta.page.after && { "page[after]": document.meta.page.after }
    }
    return resources
  }

  /**
   * Return the result of an action, which is repeated after a wait if it fails with a status.
   * @template T
   * @param {number[]} statuses @param {AbortSignal | undefined} signal @param {() => Promise<T>} action
   * @returns {Promise<T>}
   */
  async retry(statuses, signal, action) {
    for (let attempt = 1; ; attempt++) {
      try {
        return await action()
      } catch (error) {
        const isBusy = error instanceof Failure && statuses.includes(error.status)
        if (!isBusy || attempt === MAX_ATTEMPTS) throw error
        const seconds = Math.min(error.retryAfter || attempt, MAX_WAIT_SECONDS)
        this.onWait(seconds)
        await pause(seconds * 1_000, signal)
      }
    }
  }

  /**
   * Send a change, and return the document of the response; null if it has none.
   *
   * A POST has an Idempotency-Key. If nobody knows whether it was executed, the same one again has the same key, and so
   * is executed once.
   * @param {"POST" | "PATCH" | "DELETE"} method @param {string} path @param {Options} [options]
   * @returns {Promise<JsonDocument | null>}
   */
  async change(method, path, options = {}) {
    const headers = { ...options.headers }
    const repeated = `${path} ${JSON.stringify([headers, options.body])}`
    if (method === "POST") {
      headers["Idempotency-Key"] = this.#keys.get(repeated) ?? newKey()
      this.#keys.set(repeated, headers["Idempotency-Key"])
    }
    try {
      const response = await this.fetch(method, path, { ...options, headers })
      const document = response.status === 204 ? null : await arrived(response.json())
      this.#keys.delete(repeated)
      return document
    } catch (error) {
      const isAnswer = error instanceof Failure && error.status > 0 && error.status < 500
      if (isAnswer) this.#keys.delete(repeated)
      throw error
    }
  }

  /**
   * Yield the parts of a response as they arrive. Raises Failure, also if nothing arrives for long, and AbortError.
   * @param {string} method @param {string} path @param {Options} options
   */
  async *stream(method, path, { signal, ...options }) {
    const silence = new AbortController()
    let timer = 0
    const hear = () => {
      clearTimeout(timer)
      timer = setTimeout(() => silence.abort(), SILENCE_MS)
    }
    const signals = AbortSignal.any([silence.signal, ...(signal ? [signal] : [])])
    try {
      if (!options.file) hear() // it may take long to send a file
      const { body } = await this.fetch(method, path, { ...options, signal: signals })
      const reader = /** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ (body).getReader()
      for (;;) {
        const { done, value } = await arrived(reader.read())
        if (done) return
        hear()
        yield value
      }
    } catch (error) {
      throw silence.signal.aborted ? new Failure(0) : error
    } finally {
      clearTimeout(timer)
    }
  }

  /**
   * Return a successful response. Raises Failure, or AbortError.
   * @param {string} method @param {string} path @param {Options} options
   */
  async fetch(method, path, options) {
    for (;;) {
      const response = await this.#send(method, path, options)
      if (response.ok) return response
      const { errors } = await response.json().catch(() => ({}))
      const retryAfter = Number(response.headers.get("Retry-After")) || 0
      const failure = new Failure(response.status, errors, retryAfter)
      const asks = failure.status === 401 && options.asks !== false
      if (!asks || !(await this.onUnauthorized())) throw failure
    }
  }

  /** @param {string} method @param {string} path which a proxy may serve below a prefix @param {Options} options */
  async #send(method, path, { query = {}, body, file, headers, signal, accept = MEDIA_TYPE }) {
    const sent = new Headers({ Accept: accept, ...headers })
    if (this.token) sent.set("Authorization", `Bearer ${this.token}`)
    if (body) sent.set("Content-Type", path === "/operations" ? ATOMIC : MEDIA_TYPE)
    const url = new URL(`.${path}`, document.baseURI)
    url.search = String(new URLSearchParams(query))
    const limit = accept === MEDIA_TYPE ? [AbortSignal.timeout(TIMEOUT_MS)] : []
    const signals = AbortSignal.any([...(signal ? [signal] : []), ...limit])
    const content = body ? JSON.stringify(body) : file
    return arrived(fetch(url, { method, headers: sent, body: content, signal: signals }))
  }
}

/** The client that the whole page uses. */
export const api = new Api()

/**
 * Return what is received, such as a document or a module. Raises Failure if the connection is lost, or AbortError.
 * @template T
 * @param {Promise<T>} receiving @returns {Promise<T>}
 */
export const arrived = (receiving) =>
  receiving.catch((error) => {
    throw isAborted(error) ? error : new Failure(0)
  })

/**
 * Yield the pieces of a text as they arrive, those together that arrive together.
 * @param {AsyncIterable<Uint8Array>} parts @param {string} end what ends a piece
 */
export async function* piecesOf(parts, end) {
  const decoder = new TextDecoder()
  let text = ""
  for await (const part of parts) {
    const pieces = (text + decoder.decode(part, { stream: true })).split(end)
    text = pieces.pop() ?? ""
    yield pieces
  }
}

/** Return a key that no other request has; `randomUUID` would need HTTPS. */
function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16)).join("-")
}

/** Wait. Raises AbortError. @type {(milliseconds: number, signal?: AbortSignal) => Promise<unknown>} */
export const pause = (milliseconds, signal) =>
  new Promise((resolve, reject) => {
    setTimeout(resolve, milliseconds)
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true })
  })

/** Return whether an error only says that nobody waits for the result any more. @param {unknown} error */
export const isAborted = (error) => error instanceof DOMException && error.name === "AbortError"
