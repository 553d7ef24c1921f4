/** The types of the registry, as its root describes them, and what the access token allows. */

import { texts } from "./texts.js"

/** @import { Identifier } from "./api.js" */
/** @typedef {"text" | "email" | "choice" | "boolean" | "integer" | "decimal" | "date" | "time" | "object"} Kind */
/**
 * @typedef {object} Attribute
 * @property {string} name
 * @property {string} label
 * @property {string} description
 * @property {Kind} kind
 * @property {string[]} choices of the kind `choice`
 * @property {boolean} nullable
 * @property {boolean} required when a resource is created
 * @property {boolean} readOnly
 * @property {boolean} unique
 * @property {unknown} default
 * @property {number} [maxLength]
 * @property {string[]} parts the attributes that it is put together of
 * @property {string} [copiedFrom] the relationship whose resource it describes
 */
/**
 * @typedef {object} Relationship
 * @property {string} name
 * @property {string} label
 * @property {string} target the name of a type
 * @property {string} inverse the name of the relationship of the target
 * @property {boolean} many
 * @property {boolean} writable
 */
/** @typedef {{ name: string, label: string, operators: string[], value: Attribute }} Filter */
/**
 * @typedef {object} Type
 * @property {string} name
 * @property {string} path of its collection
 * @property {string} label of one resource
 * @property {string} plural
 * @property {Attribute[]} attributes
 * @property {Attribute[]} authorship who created and changed a resource, and when
 * @property {Relationship[]} relationships
 * @property {Attribute} [display] the attribute that people know a resource by
 * @property {Filter[]} filters
 * @property {string[]} sort the names that sorting knows
 * @property {boolean} writable
 */
/** @typedef {{ name: string, read: string[], write: string[] }} Access */

/** @type {Map<string, Type>} */
const types = new Map()

/**
 * The operators that compare with something, by name.
 * @type {Record<string, { label: string, time_label: string, operand: "value" | "list" | "part" }>}
 */
export let operators = {}

/** @type {Access | null} */
let access = null

/**
 * Learn the types, and what the access token allows; return that, null where no token is required.
 * @param {any} meta of the document of the root
 */
export function learn(meta) {
  types.clear()
  for (const described of meta.types) types.set(described.type, typeFrom(described, meta.types))
  operators = meta.operators
  access = meta.access ?? null
  return access
}

/** The types that may be read. */
export const readableTypes = () => [...types.values()].filter((type) => mayRead(type.name))

/** The types whose resources may be written. */
export const writableTypes = () => readableTypes().filter((type) => mayWrite(type.name))

/** @param {string} name */
export const typeOf = (name) => /** @type {Type} */ (types.get(name))

/** @param {string} type */
export const mayRead = (type) => types.has(type) && (!access || access.read.includes(type))

/** @param {string} type */
export const mayWrite = (type) => typeOf(type).writable && (!access || access.write.includes(type))

/**
 * Return the relationships to one or to many resources of types that may be read.
 * @param {Type} type
 * @param {boolean} many
 */
export const links = (type, many) => type.relationships.filter((link) => link.many === many && mayRead(link.target))

/** Return whether a relationship may be changed. @param {Type} type @param {Relationship} link */
export const mayLink = (type, link) => link.writable && mayWrite(type.name) && mayWrite(link.target)

/** Return the relationships to many resources, without what the registry writes itself. @param {Type} type */
export const countedLinks = (type) => links(type, true).filter((link) => link.writable)

/** Return the relationships to one resource that may be changed. @param {Type} type */
export const linkable = (type) => links(type, false).filter((link) => mayLink(type, link))

/** @param {any} described @param {any[]} all @returns {Type} */
function typeFrom(described, all) {
  const { type: name, path, writable, sort, relationships, filters } = described
  const attributes = attributesFrom(described.attributes)
  const isText = (/** @type {Attribute} */ attribute) => attribute.kind === "text"
  return {
    name,
    path,
    writable,
    sort,
    label: described.history ? texts.periodOf(...endsOf(described.history)) : labelOf(name),
    plural: pluralOf(described),
    attributes,
    authorship: attributesFrom(described.authorship),
    relationships: Object.entries(relationships).map(([link, { type: target, many, inverse, writable }]) => {
      const history = all.find((other) => other.type === target && other.history)
      const label = history ? pluralOf(history) : labelOf(link)
      return { name: link, label, target, inverse, many, writable }
    }),
    display:
      attributes.find((attribute) => attribute.parts.length > 0) ??
      attributes.find((attribute) => isText(attribute) && attribute.required) ??
      attributes.find((attribute) => isText(attribute) && !attribute.readOnly),
    filters: filters.flatMap((/** @type {{ name: string, operators: string[] }} */ filter) => {
      const value = comparedBy(filter.name, described, all)
      return value ? { ...filter, label: labelOf(filter.name), value } : []
    }),
  }
}

/** @param {{ type: string, relationship: string }} history @returns {[string, string]} */
const endsOf = ({ type, relationship }) => [labelOf(relationship), type.replaceAll("_", " ")]

/** @param {any} described */
function pluralOf({ path, history }) {
  return history ? texts.periodsOf(...endsOf(history)) : labelOf(path.slice(1))
}

/**
 * Return what a filter compares: an attribute of the type or of a linked one, or an id.
 * @param {string} name
 * @param {any} described
 * @param {any[]} all
 * @returns {Attribute | undefined}
 */
function comparedBy(name, described, all) {
  const [first, ...rest] = name.split(".")
  const link = described.relationships[first]
  if (link && rest.length > 0) {
    return comparedBy(
      rest.join("."),
      all.find((other) => other.type === link.type),
      all,
    )
  }
  const schema = { ...described.attributes, ...described.authorship }[first]
  return attributeFrom(first, schema ?? { type: "integer", nullable: Boolean(link) })
}

/** @param {Record<string, any>} schemas */
const attributesFrom = (schemas) => Object.entries(schemas).map(([name, schema]) => attributeFrom(name, schema))

/** @param {string} name @param {any} schema @returns {Attribute} */
function attributeFrom(name, schema) {
  const { description = "", nullable = false, required = false, readOnly = false, unique = false } = schema
  return {
    name,
    label: labelOf(name),
    description,
    kind: kindOf(schema),
    choices: (schema.enum ?? []).filter((/** @type {unknown} */ choice) => choice !== null),
    nullable,
    required,
    readOnly,
    unique,
    default: schema.default ?? null,
    maxLength: schema.maxLength,
    parts: schema.parts ?? [],
    copiedFrom: schema["x-copied-from"],
  }
}

/** @param {any} schema @returns {Kind} */
function kindOf(schema) {
  if (schema.enum) return "choice"
  if (schema.type !== "string") return schema.type
  if (schema.format === "date-time") return "time"
  if (schema.format === "date" || schema.format === "email") return schema.format
  return schema.pattern ? "decimal" : "text"
}

/** Return a name as people write it: `owner.first_name` is `Owner: first name`. @param {string} name */
export function labelOf(name) {
  const words = name.replaceAll("_", " ").replaceAll(".", ": ")
  return words === "id" ? texts.id : words.charAt(0).toUpperCase() + words.slice(1)
}

/**
 * Return what people call a resource.
 * @param {Type} type
 * @param {Identifier & { attributes?: Record<string, any> }} resource
 * @returns {string}
 */
export function nameOf(type, resource) {
  return (type.display && resource.attributes?.[type.display.name]) || texts.numbered(type.label, resource.id)
}

/** Return how many resources there are, such as `3 persons`. @param {Type} type @param {number} count */
export const countedOf = (type, count) => texts.counted(count, type.label, type.plural)

/**
 * Return the query parameters that read the names of linked resources along.
 * @param {Type} type
 * @param {Attribute[]} attributes what to read of the type beside its names; by default, all
 */
export function fieldsWithNames(type, attributes = [...type.attributes, ...type.authorship]) {
  const toOne = links(type, false)
  const own = [...new Set([type.display?.name, ...[...attributes, ...toOne].map(({ name }) => name)])]
  /** @type {Record<string, string>} */
  const query = { [`fields[${type.name}]`]: own.filter(Boolean).join(",") }
  if (type.name === "revision") query.include = "resource"
  if (toOne.length > 0) query.include = toOne.map((link) => link.name).join(",")
  for (const { target } of toOne) {
    const { display } = typeOf(target)
    if (display && target !== type.name) query[`fields[${target}]`] = display.name
  }
  return query
}
