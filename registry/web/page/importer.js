/** The importer: rows are checked, then stored, in transactions of a hundred. */

import { Failure } from "./api.js"
import { unescaped } from "./csv.js"
import { texts } from "./texts.js"
import { parsed } from "./values.js"

/** @import { ErrorObject } from "./api.js" */
/** @import { App } from "./app.js" */
/** @import { CsvRow } from "./csv.js" */
/** @import { Attribute, Type } from "./description.js" */
/**
 * A column of the file. link: the name of the relationship whose resource it describes, or "".
 * attribute: null for the id.
 * @typedef {{ name: string, index: number, link: string, type: Type, attribute: Attribute | null }} Column
 */
/** What a row says of a resource. @typedef {{ id: string, values: Record<string, any> }} Mention */
/** @typedef {{ line: number, own: Mention, links: Map<string, Mention> }} Row */
/** @typedef {{ line: number, column: string, text: string }} Defect */
/** A resource by its key; id: "" until it is stored. @typedef {Mention} Known */
/** @typedef {(done: number, all: number) => void} OnProgress */

const BATCH = 100
const MAX_PASSES = 20
const MAX_BATCH_CHARACTERS = 200_000
const MAX_CONDITIONS = 200
export const ID = "id"

/**
 * Return the column that tells which stored resource is meant; undefined if none can.
 * @param {Column[]} columns of one resource
 */
export function keyOf(columns) {
  return (
    columns.find((one) => one.attribute?.unique) ??
    columns.find((one) => !one.attribute) ??
    columns.find((one) => one.attribute?.kind === "email") ??
    columns.find((one) => one.attribute === one.type.display)
  )
}

/** The import of one file: its rows, and what is known of the resources they name. */
export class Importer {
  /** Resources by key; null where several have it. @type {Map<string, Known | null>} */
  #known = new Map()

  /** Up to which line everything is stored. */
  line = 0

  /**
   * @param {App} app
   * @param {Type} type
   * @param {Column[]} columns
   * @param {Column | undefined} key tells which stored resource a row is
   * @param {CsvRow[]} table with its header
   */
  constructor(app, type, columns, key, table) {
    this.app = app
    this.type = type
    this.columns = columns
    /** What tells which row, and which linked resource, is meant. @type {Map<string, Column[]>} */
    this.keys = new Map([["", key ? [key] : []]])
    for (const link of new Set(columns.map((one) => one.link).filter(Boolean))) {
      const own = columns.filter((one) => one.link === link)
      const found = keyOf(own)
      this.keys.set(link, found ? [found] : own)
    }
    /** Whether the registry finds all by itself, without a gap between looking and storing. */
    this.merges = [...this.keys.values()].every(([one]) => one?.attribute?.unique)
    /** @type {Defect[]} */
    this.defects = []
    const [header, ...lines] = table
    this.rows = lines.flatMap((line) => this.#rowOf(line, header.cells.length) ?? [])
    this.#reject()
  }

  /**
   * Return what a line says; null if it is invalid, which is noted.
   * @param {CsvRow} line
   * @param {number} width
   * @returns {Row | null}
   */
  #rowOf({ line, cells }, width) {
    if (cells.length !== width) {
      this.defects.push({ line, column: "", text: texts.importColumns(width, cells.length) })
      return null
    }
    /** @type {Row} */
    const row = { line, own: { id: "", values: {} }, links: new Map() }
    const before = this.defects.length
    for (const { name, index, link, attribute } of this.columns) {
      const text = unescaped(cells[index])
      if (text === "") continue
      const mention = link ? (row.links.get(link) ?? { id: "", values: {} }) : row.own
      if (link) row.links.set(link, mention)
      try {
        if (attribute) mention.values[attribute.name] = valueOf(attribute, text)
        else mention.id = text
      } catch (message) {
        this.defects.push({ line, column: name, text: String(message) })
      }
    }
    return this.defects.length > before ? null : row
  }

  /** Leave out rows that repeat the key of an earlier one. */
  #reject() {
    const [key] = this.keys.get("") ?? []
    if (!key) return
    const seen = new Set()
    this.rows = this.rows.filter(({ line, own }) => {
      const value = key.attribute ? own.values[key.attribute.name] : own.id
      const isRepeated = value !== undefined && value !== "" && seen.has(value)
      if (isRepeated) this.defects.push({ line, column: key.name, text: texts.importTwice })
      seen.add(value)
      return !isRepeated
    })
  }

  /**
   * Check all rows, or store them. Rows that are refused are noted, and left out from then on.
   * Raises Failure, AbortError.
   * @param {boolean} isDryRun whether nothing is to be stored
   * @param {OnProgress} onProgress
   * @param {AbortSignal} signal
   */
  async run(isDryRun, onProgress, signal) {
    const all = this.rows.length
    /** @type {Row[]} */
    const accepted = []
    let done = 0
    for (const rows of batches(this.rows)) {
      await this.#lookUp(rows, signal)
      const agreed = rows.filter((row) => this.#agrees(row))
      accepted.push(...(await this.#perform(agreed, isDryRun, signal)))
      done += rows.length
      this.line = rows.at(-1)?.line ?? 0
      onProgress(done, all)
    }
    this.rows = accepted
  }

  /**
   * Perform a batch; return the rows that were accepted.
   * @param {Row[]} rows
   * @param {boolean} isDryRun
   * @param {AbortSignal} signal
   */
  async #perform(rows, isDryRun, signal) {
    const preferences = [
      ...(this.merges ? ["resolution=merge-duplicates"] : []),
      ...(isDryRun ? ["tx=rollback"] : []),
    ]
    let accepted = rows
    for (let pass = 0; accepted.length > 0; pass++) {
      const { operations, origins, added } = this.#operations(accepted)
      try {
        const document = await this.app.api.operate(operations, preferences, signal)
        const results = document?.["atomic:results"] ?? []
        for (const [index, known] of isDryRun ? [] : added) known.id = results[index].data?.id ?? ""
        return accepted
      } catch (error) {
        const refused = error instanceof Failure && error.status >= 400 && error.status < 500
        if (!refused || pass === MAX_PASSES) throw error
        const defects = error.errors.flatMap((one) => defectOf(one, origins))
        if (defects.length === 0) throw error
        this.defects.push(...defects)
        const lines = new Set(defects.map((one) => one.line))
        accepted = accepted.filter((one) => !lines.has(one.line))
      }
    }
    return accepted
  }

  /**
   * Find the stored resources that rows name by their keys.
   * @param {Row[]} rows
   * @param {AbortSignal} signal
   */
  async #lookUp(rows, signal) {
    for (const [link, columns] of this.keys) {
      if (link === "" && this.merges) continue
      const mentions = rows.flatMap((row) => (link ? (row.links.get(link) ?? []) : row.own))
      const named = new Map(mentions.map((one) => [this.#keyOf(link, one) ?? "", one.values]))
      const unknown = [...named].filter(([key]) => key && !this.#known.has(key))
      const size = Math.floor(MAX_CONDITIONS / Math.max(columns.length, 1))
      for (let start = 0; start < unknown.length; start += size) {
        const wanted = unknown.slice(start, start + size).map(([, values]) => values)
        await this.#readKeys(link, columns, wanted, signal)
      }
    }
  }

  /**
   * Read the resources that have the values of key columns.
   * @param {string} link
   * @param {Column[]} columns
   * @param {Record<string, any>[]} wanted
   * @param {AbortSignal} signal
   */
  async #readKeys(link, columns, wanted, signal) {
    const [{ type }] = columns
    const keys = columns.flatMap((one) => one.attribute ?? [])
    const fields = this.columns.filter((one) => one.link === link && one.attribute)
    const query = {
      filter: JSON.stringify([conditionOn(keys, wanted)]),
      [`fields[${type.name}]`]: fields.map((one) => one.attribute?.name).join(","),
      "page[size]": "1000",
    }
    for (let after = ""; after !== null;) {
      const page = after ? { ...query, "page[after]": after } : query
      const { document } = await this.app.api.get(type.path, page, signal)
      for (const { id, attributes } of document.data) {
        const key = keyFor(columns, attributes)
        this.#known.set(key, this.#known.has(key) ? null : { id, values: attributes })
      }
      after = document.meta.page.after
    }
  }

  /**
   * Return whether a row names what it means, and agrees with what is stored of what it links to;
   * if not, that is noted. What a link leads to is created, but never changed.
   * @param {Row} row
   */
  #agrees({ line, own, links }) {
    const before = this.defects.length
    for (const [link, mention] of [["", own], ...links]) {
      const { values } = /** @type {Mention} */ (mention)
      const key = this.#keyOf(String(link), /** @type {Mention} */ (mention))
      const known = key ? this.#known.get(key) : undefined
      const columns = this.columns.filter((one) => one.link === link && one.attribute)
      if (known === null) {
        const column = this.keys.get(String(link))?.[0].name ?? ""
        this.defects.push({ line, column, text: texts.importSeveral })
      } else if (key && !known && link) this.#known.set(key, { id: "", values })
      for (const { name, attribute } of known && link ? columns : []) {
        const value = attribute && values[attribute.name]
        const stored = attribute && known?.values[attribute.name]
        if (attribute && value !== undefined && !isSame(attribute, value, stored)) {
          this.defects.push({ line, column: name, text: texts.importDiffers(String(stored ?? "")) })
        }
      }
    }
    return this.defects.length === before
  }

  /**
   * Return the operations of rows, with the row and the columns of each, and what they add.
   * @param {Row[]} rows
   */
  #operations(rows) {
    /** @type {unknown[]} */
    const operations = []
    /** @type {{ line: number, link: string }[]} */
    const origins = []
    /** What operations add, by their index. @type {Map<number, Known>} */
    const added = new Map()
    /** Local ids by key. @type {Map<string, string>} */
    const local = new Map()
    /** @type {(line: number, link: string, type: Type, mention: Mention, links: object) => object} */
    const write = (line, link, type, mention, links) => {
      const key = this.#keyOf(link, mention)
      const known = key ? this.#known.get(key) : undefined
      const id = mention.id || known?.id
      if (id && link) return { type: type.name, id }
      const lid = (key && local.get(key)) ?? `r${operations.length}`
      if (key && local.has(key)) return { type: type.name, lid }
      if (key) local.set(key, lid)
      if (known) added.set(operations.length, known)
      const writable = type.attributes.filter((one) => !one.readOnly && one.name in mention.values)
      const attributes = Object.fromEntries(
        writable.map((one) => [one.name, mention.values[one.name]]),
      )
      const identity = id ? { type: type.name, id } : { type: type.name, lid }
      origins.push({ line, link })
      operations.push({
        op: id ? "update" : "add",
        data: { ...identity, attributes, relationships: links },
      })
      return identity
    }
    for (const { line, own, links } of rows) {
      const linked = [...links].map(([name, mention]) => {
        const { type } = /** @type {Column} */ (this.columns.find((one) => one.link === name))
        return [name, { data: write(line, name, type, mention, {}) }]
      })
      write(line, "", this.type, own, Object.fromEntries(linked))
    }
    return { operations, origins, added }
  }

  /**
   * Return the key of a resource; null if it has none.
   * @param {string} link
   * @param {Mention} mention
   */
  #keyOf(link, { values }) {
    const columns = this.keys.get(link) ?? []
    const isComplete = columns.every((one) => one.attribute && one.attribute.name in values)
    return columns.length > 0 && isComplete ? keyFor(columns, values) : null
  }
}

/**
 * Return a text that resources with the same values in key columns have in common.
 * @param {Column[]} columns
 * @param {Record<string, any>} values
 */
function keyFor(columns, values) {
  const parts = columns.map(({ attribute }) => {
    const value = values[attribute?.name ?? ID]
    return attribute?.kind === "email" ? String(value).toLowerCase() : value
  })
  return JSON.stringify([columns[0].type.name, ...parts])
}

/**
 * Return the condition that selects the resources with one of several combinations of values.
 * @param {Attribute[]} keys
 * @param {Record<string, any>[]} wanted
 */
function conditionOn(keys, wanted) {
  const [{ name, kind }] = keys
  if (keys.length > 1) {
    const equal = (/** @type {Record<string, any>} */ values) =>
      keys.map((one) => ({ name: one.name, op: "eq", val: values[one.name] }))
    return { or: wanted.map((one) => ({ and: equal(one) })) }
  }
  const values = wanted.map((one) => one[name])
  const isMail = kind === "email"
  return { name, op: "in", val: isMail ? [...new Set(values.flatMap(spellings))] : values }
}

/**
 * Return the usual spellings of an address, of which the case does not matter.
 * @param {string} address
 */
function spellings(address) {
  const lower = address.toLowerCase()
  const capitalized = lower.charAt(0).toUpperCase() + lower.slice(1)
  return [address, lower, capitalized, address.toUpperCase()]
}

/**
 * Return whether a cell has the value that is stored.
 * @param {Attribute} attribute
 * @param {any} value
 * @param {any} stored
 */
function isSame({ kind }, value, stored) {
  if (stored === null || stored === undefined) return false
  if (kind === "email") return value.toLowerCase() === stored.toLowerCase()
  if (kind === "decimal") return Number(value) === Number(stored)
  if (kind === "time") return Date.parse(value) === Date.parse(stored)
  return value === stored
}

/**
 * Yield rows in batches that fit into a request.
 * @param {Row[]} rows
 */
function* batches(rows) {
  /** @type {Row[]} */
  let batch = []
  let size = 0
  for (const row of rows) {
    const more = JSON.stringify([row.own, ...row.links.values()]).length
    if (batch.length === BATCH || size + more > MAX_BATCH_CHARACTERS) {
      if (batch.length > 0) yield batch
      batch = []
      size = 0
    }
    batch.push(row)
    size += more
  }
  if (batch.length > 0) yield batch
}

/**
 * Return the value that a cell stands for. Throws a sentence for people.
 * @param {Attribute} attribute
 * @param {string} text
 */
function valueOf(attribute, text) {
  if (attribute.kind === "time") return text
  if (attribute.kind === "boolean" && !/^(true|false)$/i.test(text)) throw texts.importBoolean
  if (attribute.kind === "integer" && !/^-?\d+$/.test(text)) throw texts.fieldInvalid.integer
  return parsed(attribute, attribute.kind === "boolean" ? text.toLowerCase() : text)
}

/**
 * Return the line and column of an error of the registry.
 * @param {ErrorObject} error
 * @param {{ line: number, link: string }[]} origins of the operations
 * @returns {Defect[]}
 */
function defectOf(error, origins) {
  const [, , index, , , name = ""] = error.source?.pointer?.split("/") ?? []
  const origin = origins[Number(index)]
  if (!index || !origin) return []
  const column = [origin.link, name].filter(Boolean).join(".")
  return [{ line: origin.line, column, text: error.detail }]
}
