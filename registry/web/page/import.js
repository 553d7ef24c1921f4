/** Import: the rows of a CSV file are checked, then stored, in transactions of a hundred. */

import { Failure, isAborted, pause } from "./api.js"
import { decode, parseCsv, unescaped } from "./csv.js"
import { button, buttons, grid, h, openDialog } from "./dom.js"
import { labelOf } from "./description.js"
import { texts } from "./texts.js"
import { parsed } from "./values.js"

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./description.js").Type} Type */
/** @typedef {import("./description.js").Attribute} Attribute */
/**
 * A column of the file. link: the name of the relationship whose resource it describes, or "".
 * attribute: null for the id.
 * @typedef {{ name: string, index: number, link: string, type: Type, attribute: Attribute | null }} Column
 */
/** What a row says of a resource. @typedef {{ id: string, values: Record<string, any> }} Mention */
/** @typedef {{ line: number, own: Mention, links: Map<string, Mention> }} Row */
/** @typedef {{ line: number, column: string, text: string }} Defect */
/** @typedef {(done: number, all: number) => void} OnProgress */

const BATCH = 100
const MAX_PASSES = 20
const MAX_WAITS = 5
const MAX_SHOWN = 100
const MAX_CONDITIONS = 200
const ID = "id"

/** The id where several resources have the same key: nothing has it. */
const SEVERAL = "0"

/**
 * Return what the columns of a type can be called in a file.
 * @param {App} app
 * @param {Type} type
 * @returns {Omit<Column, "index">[]}
 */
function columnsOf(app, type) {
  /** @type {(of: Type, link: string) => Omit<Column, "index">[]} */
  const named = (of, link) => {
    const prefix = link ? `${link}.` : ""
    const attributes = of.attributes.filter((one) => !one.readOnly || (link && one === of.display))
    return [
      { name: `${prefix}${ID}`, link, type: of, attribute: null },
      ...attributes.map((one) => ({
        name: `${prefix}${one.name}`,
        link,
        type: of,
        attribute: one,
      })),
    ]
  }
  const links = type.relationships.filter((one) => !one.many && app.mayWrite(one.target))
  const targets = links.map((one) =>
    named(/** @type {Type} */ (app.description.types.get(one.target)), one.name),
  )
  return [...named(type, ""), ...targets.flat()]
}

/**
 * Return the column that tells which stored resource is meant; undefined if none can.
 * @param {Column[]} columns of one resource
 */
function keyOf(columns) {
  return (
    columns.find((one) => one.attribute?.unique) ??
    columns.find((one) => !one.attribute) ??
    columns.find((one) => one.attribute?.kind === "email") ??
    columns.find((one) => one.attribute === one.type.display)
  )
}

/** The import of one file: its rows, and what is known of the resources they name. */
class Job {
  /** Ids by key. @type {Map<string, string>} */
  #known = new Map()

  /**
   * @param {App} app
   * @param {Type} type
   * @param {Column[]} columns
   * @param {Column | undefined} key tells which stored resource a row is
   * @param {import("./csv.js").Row[]} table with its header
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
    this.merges =
      app.description.canMerge && [...this.keys.values()].every(([one]) => one?.attribute?.unique)
    /** @type {Defect[]} */
    this.defects = []
    const [header, ...lines] = table
    this.rows = lines.flatMap((line) => this.#rowOf(line, header.cells.length) ?? [])
    this.#reject()
  }

  /**
   * Return what a line says; null if it is invalid, which is noted.
   * @param {import("./csv.js").Row} line
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
   * @param {boolean} isTrial whether nothing is to be stored
   * @param {OnProgress} onProgress
   * @param {AbortSignal} signal
   */
  async run(isTrial, onProgress, signal) {
    const all = this.rows.length
    /** @type {Row[]} */
    const accepted = []
    for (let start = 0; start < all; start += BATCH) {
      const rows = this.rows.slice(start, start + BATCH)
      if (!this.merges) await this.#lookUp(rows, signal)
      accepted.push(...(await this.#perform(rows, isTrial, signal)))
      onProgress(Math.min(start + BATCH, all), all)
    }
    this.rows = accepted
  }

  /**
   * Perform a batch; return the rows that were accepted.
   * @param {Row[]} rows
   * @param {boolean} isTrial
   * @param {AbortSignal} signal
   */
  async #perform(rows, isTrial, signal) {
    const preferences = [
      ...(this.merges ? ["resolution=merge-duplicates"] : []),
      ...(isTrial ? ["tx=rollback"] : []),
    ]
    let accepted = rows
    for (let pass = 0; accepted.length > 0; pass++) {
      const { operations, origins, keys } = this.#operations(accepted)
      try {
        const document = await this.#send(operations, preferences, signal)
        const results = document?.["atomic:results"] ?? []
        for (const [index, key] of isTrial ? [] : keys)
          this.#known.set(key, results[index].data?.id ?? "")
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
   * Send operations, again while the registry is busy.
   * @param {unknown[]} operations
   * @param {string[]} preferences
   * @param {AbortSignal} signal
   */
  async #send(operations, preferences, signal) {
    for (let wait = 0; ; wait++) {
      try {
        return await this.app.api.operate(operations, preferences, signal)
      } catch (error) {
        const isBusy = error instanceof Failure && (error.status === 503 || error.status === 0)
        if (!isBusy || wait === MAX_WAITS) throw error
        await pause(1_000 * (error.retryAfter || wait + 1), signal)
      }
    }
  }

  /**
   * Find the stored resources that rows name by their keys.
   * @param {Row[]} rows
   * @param {AbortSignal} signal
   */
  async #lookUp(rows, signal) {
    for (const [link, columns] of this.keys) {
      const mentions = rows.flatMap((row) => (link ? (row.links.get(link) ?? []) : row.own))
      const named = new Map(mentions.map((one) => [this.#keyOf(link, one) ?? "", one.values]))
      const unknown = [...named]
        .filter(([key]) => key && !this.#known.has(key))
        .map(([, values]) => values)
      const size = Math.floor(MAX_CONDITIONS / Math.max(columns.length, 1))
      for (let start = 0; start < unknown.length; start += size) {
        await this.#readKeys(columns, unknown.slice(start, start + size), signal)
      }
    }
  }

  /**
   * Read the ids of the resources that have the values of key columns.
   * @param {Column[]} columns
   * @param {Record<string, any>[]} wanted
   * @param {AbortSignal} signal
   */
  async #readKeys(columns, wanted, signal) {
    const [{ type }] = columns
    const names = columns.flatMap((one) => one.attribute?.name ?? [])
    const equal = (/** @type {Record<string, any>} */ values) =>
      names.map((name) => ({ name, op: "eq", val: values[name] }))
    const condition =
      names.length === 1
        ? { name: names[0], op: "in", val: wanted.map((one) => one[names[0]]) }
        : { or: wanted.map((one) => ({ and: equal(one) })) }
    const query = {
      filter: JSON.stringify([condition]),
      [`fields[${type.name}]`]: names.join(","),
      "page[size]": "1000",
    }
    const { document } = await this.app.api.get(type.path, query, signal)
    for (const { id, attributes } of document.data) {
      const key = keyFor(columns, attributes)
      this.#known.set(key, this.#known.has(key) ? SEVERAL : id)
    }
  }

  /**
   * Return the operations of rows, with the row and the columns of each, and the keys of additions.
   * @param {Row[]} rows
   */
  #operations(rows) {
    /** @type {unknown[]} */
    const operations = []
    /** @type {{ line: number, link: string }[]} */
    const origins = []
    /** @type {Map<number, string>} */
    const keys = new Map()
    /** Local ids of what earlier operations add, by key. @type {Map<string, string>} */
    const added = new Map()
    /** @type {(line: number, link: string, type: Type, mention: Mention, links: object) => object} */
    const write = (line, link, type, mention, links) => {
      const key = this.#keyOf(link, mention)
      const lid = key && added.get(key)
      if (lid) return { type: type.name, lid }
      const id = mention.id || (key && this.#known.get(key))
      const changed = Object.entries(mention.values).filter(([name]) => isWritable(type, name))
      const attributes = Object.fromEntries(changed)
      const identity = id
        ? { type: type.name, id }
        : { type: type.name, lid: `r${operations.length}` }
      const isKey = (/** @type {string} */ name) =>
        this.keys.get(link)?.some((one) => one.attribute?.name === name)
      if (link && id && changed.every(([name]) => isKey(name))) return identity
      if (key && !id) {
        keys.set(operations.length, key)
        added.set(key, `r${operations.length}`)
      }
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
    return { operations, origins, keys }
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
  return JSON.stringify([
    columns[0].type.name,
    ...columns.map((one) => values[one.attribute?.name ?? ID]),
  ])
}

/**
 * @param {Type} type
 * @param {string} name
 */
function isWritable(type, name) {
  return type.attributes.some((one) => one.name === name && !one.readOnly)
}

/**
 * Return the value that a cell stands for. Throws a sentence for people.
 * @param {Attribute} attribute
 * @param {string} text
 */
function valueOf(attribute, text) {
  if (attribute.kind === "time") return text
  if (attribute.kind === "boolean" && !/^(true|false)$/i.test(text)) throw texts.importBoolean
  if (attribute.kind === "integer" && !/^-?\d+$/.test(text)) throw texts.fieldInvalid
  return parsed(attribute, attribute.kind === "boolean" ? text.toLowerCase() : text)
}

/**
 * Return the line and column of an error of the registry.
 * @param {import("./api.js").ErrorObject} error
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

/**
 * Open the dialog that imports a file.
 * @param {App} app
 * @param {Type} preferred
 * @param {File} [dropped]
 */
export function openImport(app, preferred, dropped) {
  const types = [...app.description.types.values()].filter((one) => app.mayWrite(one.name))
  const options = types.map((one) =>
    h("option", { value: one.name, selected: one === preferred }, one.plural),
  )
  const kind = h("select", { id: "import-type" }, ...options)
  const input = h("input", { type: "file", id: "import-file", accept: ".csv,text/csv" })
  const place = h("div")
  const stop = new AbortController()
  let file = dropped
  const read = async () => {
    const type = types.find((one) => one.name === kind.value)
    if (!file || !type) return
    try {
      const rows = parseCsv(await decode(file))
      if (rows.length < 2) throw new Error(texts.importEmpty)
      place.replaceChildren(new Plan(app, type, rows, stop.signal).element)
    } catch (error) {
      place.replaceChildren(
        h("p", { role: "alert", class: "error" }, /** @type {Error} */ (error).message),
      )
    }
  }
  input.addEventListener("change", () => {
    file = input.files?.[0]
    read()
  })
  kind.addEventListener("change", read)
  const dialog = openDialog(
    texts.import,
    [
      h("div", { class: "field" }, h("label", { for: kind.id }, texts.importInto), kind),
      h(
        "div",
        { class: "field" },
        h("label", { for: input.id }, texts.importFile),
        input,
        file?.name,
      ),
      place,
    ],
    { isWide: true },
  )
  dialog.addEventListener("close", () => {
    stop.abort()
    app.refresh()
  })
  read()
}

/** What becomes of the columns of a file, its check and its import. */
class Plan {
  /**
   * @param {App} app
   * @param {Type} type
   * @param {import("./csv.js").Row[]} table
   * @param {AbortSignal} signal
   */
  constructor(app, type, table, signal) {
    this.app = app
    this.type = type
    this.table = table
    this.signal = signal
    this.possible = columnsOf(app, type)
    this.selects = table[0].cells.map((header, index) => this.#select(header, index))
    this.key = h("select", { id: "import-key" })
    this.#showKeys()
    const rows = this.selects.map((select, index) => {
      const label = h("label", { for: select.id }, h("bdi", {}, table[0].cells[index]))
      return [label, h("bdi", {}, unescaped(table[1].cells[index] ?? "")), select]
    })
    const heads = [texts.importColumn, texts.importSample, texts.importField]
    this.result = h("div", { role: "status" })
    const check = button(texts.importCheck, () => this.#check(), { class: "primary" })
    this.element = h(
      "div",
      {},
      grid(heads, rows),
      h("div", { class: "field" }, h("label", { for: this.key.id }, texts.importKey), this.key),
      buttons(check),
      this.result,
    )
  }

  /**
   * Return the choice of what a column becomes: by default, what is called like it.
   * @param {string} header
   * @param {number} index
   */
  #select(header, index) {
    const plain = (/** @type {string} */ one) => one.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "")
    const options = this.possible.map((one) => {
      const selected = plain(one.name) === plain(header)
      return h("option", { value: one.name, selected }, labelOf(one.name))
    })
    const change = () => this.#showKeys()
    return h(
      "select",
      { id: `import-${index}`, change },
      h("option", { value: "" }, texts.importIgnore),
      ...options,
    )
  }

  /** The columns that are not left out. @returns {Column[]} */
  get #columns() {
    return this.selects.flatMap((select, index) => {
      const found = this.possible.find((one) => one.name === select.value)
      return found ? [{ ...found, index }] : []
    })
  }

  #showKeys() {
    const own = this.#columns.filter((one) => !one.link)
    const chosen = keyOf(own)
    const options = own.map((one) =>
      h("option", { value: one.name, selected: one === chosen }, labelOf(one.name)),
    )
    this.key.replaceChildren(
      ...options,
      h("option", { value: "", selected: !chosen }, texts.importNoKey),
    )
  }

  /** Check all rows, and offer to store those without errors. */
  async #check() {
    const columns = this.#columns
    const names = columns.map((one) => one.name)
    if (new Set(names).size < names.length)
      return this.#show(h("p", { class: "error" }, texts.importSameName))
    const key = columns.find((one) => one.name === this.key.value)
    const job = new Job(this.app, this.type, columns, key, this.table)
    await this.#run(texts.importChecking, async (onProgress) => {
      if (this.app.description.canTry) await job.run(true, onProgress, this.signal)
      const count = job.rows.length
      const apply = button(texts.importApply(count), () => this.#apply(job), { class: "primary" })
      this.#show(
        h("p", {}, texts.importGood(count)),
        this.#errors(job.defects),
        count > 0 ? buttons(apply) : null,
      )
      apply.focus()
    })
  }

  /** @param {Job} job */
  async #apply(job) {
    job.defects = []
    let stored = 0
    const onApplied = (/** @type {number} */ done, /** @type {number} */ all) => {
      stored = done
      return texts.importApplying(done, all)
    }
    await this.#run(onApplied, async (onProgress) => {
      try {
        await job.run(false, onProgress, this.signal)
        this.#show(
          h("p", { class: "done" }, texts.importDone(job.rows.length)),
          this.#errors(job.defects),
        )
      } catch (error) {
        const note = h("p", {}, texts.importStopped(stored))
        this.#show(h("p", { class: "error" }, /** @type {Error} */ (error).message), note)
      }
    })
  }

  /**
   * Show the progress of an action.
   * @param {OnProgress | ((done: number, all: number) => string)} text
   * @param {(onProgress: OnProgress) => Promise<void>} action
   */
  async #run(text, action) {
    const bar = h("progress", { max: 1, "aria-label": texts.progress })
    const words = h("p")
    this.#show(bar, words)
    try {
      await action((done, all) => {
        bar.max = all
        bar.value = done
        words.textContent = String(text(done, all))
      })
    } catch (error) {
      if (!isAborted(error))
        this.#show(h("p", { class: "error" }, /** @type {Error} */ (error).message))
    }
  }

  /** @param {...import("./dom.js").Child} content */
  #show(...content) {
    this.result.replaceChildren(h("div", {}, ...content))
  }

  /** @param {Defect[]} defects */
  #errors(defects) {
    if (defects.length === 0) return null
    const lines = new Set(defects.map((one) => one.line)).size
    const rows = defects
      .slice(0, MAX_SHOWN)
      .map(({ line, column, text }) => [line, column && labelOf(column), text])
    const more = defects.length - MAX_SHOWN
    return h(
      "div",
      {},
      h("p", { class: "error" }, texts.importBad(lines)),
      grid([texts.line, texts.column, texts.error], rows),
      more > 0 ? h("p", {}, texts.importMore(more)) : null,
    )
  }
}
