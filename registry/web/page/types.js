/** The types of the registry, as its root describes them, and what the access token allows. */

import { counted, withArticle } from "./texts.js"

/** @type {Map<string, Type>} */
const types = new Map()

/** The operators that compare with something, by name. @type {Record<string, Operator>} */
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
const mayRead = (type) => types.has(type) && (!access || access.read.includes(type))

/** @param {string} type */
export const mayWrite = (type) => typeOf(type).writable && (!access || access.write.includes(type))

/**
 * Return the relationships to one or to many resources of types that may be read.
 * @param {Type} type @param {boolean} many
 */
export const links = (type, many) => type.relationships.filter((link) => link.many === many && link.types.some(mayRead))

/** Return whether a relationship may be changed. @param {Type} type @param {Relationship} link */
export const mayLink = (type, link) => link.writable && mayWrite(type.name) && mayWrite(link.target)

/** Return the relationships to many resources, without what the registry writes itself. @param {Type} type */
export const countedLinks = (type) => links(type, true).filter((link) => link.writable)

/** Return the relationships to one resource that may be changed. @param {Type} type */
export const linkable = (type) => links(type, false).filter((link) => mayLink(type, link))

/** @param {any} described @param {any[]} all @returns {Type} */
function typeFrom(described, all) {
  const { type: name } = described
  const attributes = attributesFrom(described.attributes)
  const isText = (/** @type {Attribute} */ attribute) => attribute.kind === "text"
  return {
    ...described,
    name,
    ...wordsFor(described),
    attributes,
    authorship: attributesFrom(described.authorship),
    relationships: Object.entries(described.relationships).map(([name, link]) => {
      const periods = all.find((other) => other.type === link.types[0] && other.history)
      return { ...link, name, label: periods ? wordsFor(periods).plural : labelOf(name), target: link.types[0] }
    }),
    display:
      attributes.find((attribute) => attribute.parts.length > 0) ??
      attributes.find((attribute) => isText(attribute) && attribute.required) ??
      attributes.find((attribute) => isText(attribute) && !attribute.readOnly),
    filters: described.filters.map((/** @type {{ name: string, operators: string[] }} */ filter) => {
      return { ...filter, label: labelOf(filter.name), value: comparedBy(filter.name, described, all) }
    }),
  }
}

/** Return what people call one and many of a type, as `Owner of a phone` and `Owners of phones`. @param {any} type */
function wordsFor({ type, path, history }) {
  if (!history) return { label: labelOf(type), plural: labelOf(path.slice(1)) }
  const [link, source] = [labelOf(history.relationship), labelOf(history.type).toLowerCase()]
  return { label: `${link} of ${withArticle(source)}`, plural: `${link}s of ${source}s` }
}

/**
 * Return what a filter compares: an attribute of the type or of a linked one, or an id.
 * @param {string} name @param {any} described @param {any[]} all @returns {Attribute}
 */
function comparedBy(name, { relationships, attributes, authorship }, all) {
  const [first, ...rest] = name.split(".")
  const link = relationships[first]
  const target = link && rest.length > 0 && all.find((other) => other.type === link.types[0])
  if (target) return comparedBy(rest.join("."), target, all)
  return attributeFrom(first, attributes[first] ?? authorship[first] ?? { type: "integer", nullable: Boolean(link) })
}

/** @param {Record<string, any>} schemas */
const attributesFrom = (schemas) => Object.entries(schemas).map(([name, schema]) => attributeFrom(name, schema))

/** @param {string} name @param {any} schema @returns {Attribute} */
function attributeFrom(name, schema) {
  const copiedFrom = schema["x-copied-from"]
  return { parts: [], ...schema, name, label: labelOf(name), kind: kindOf(schema), copiedFrom }
}

/** @param {any} schema @returns {Kind} */
function kindOf(schema) {
  if (schema.enum) return "choice"
  if (schema.type !== "string") return schema.type
  if (schema.format === "date-time") return "time"
  return ["date", "email", "decimal"].includes(schema.format) ? schema.format : "text"
}

/** Return a name as people write it: `owner.first_name` is `Owner: first name`. @param {string} name */
export function labelOf(name) {
  const words = name.replaceAll("_", " ").replaceAll(".", ": ")
  return words === "id" ? "ID" : words.charAt(0).toUpperCase() + words.slice(1)
}

/**
 * Return what people call a resource.
 * @param {Type} type @param {Identifier & { attributes?: Record<string, any> }} resource @returns {string}
 */
export function nameOf(type, resource) {
  return (type.display && resource.attributes?.[type.display.name]) || `${type.label} ${resource.id}`
}

/** Return how many resources there are, such as `3 persons`. @param {Type} type @param {number} count */
export const countedOf = (type, count) => counted(count, type.label.toLowerCase(), type.plural.toLowerCase())

/** Return the query parameters that read a type with the names of linked resources. @param {Type} type */
export function fieldsWithNames(type) {
  const toOne = links(type, false)
  const own = [...type.attributes, ...type.authorship, ...toOne].map(({ name }) => name)
  /** @type {Record<string, string>} */
  const query = { [`fields[${type.name}]`]: own.join(",") }
  if (toOne.length > 0) query.include = toOne.map((link) => link.name).join(",")
  for (const target of toOne.flatMap((link) => link.types.filter(mayRead))) {
    const { display } = typeOf(target)
    if (display && target !== type.name) query[`fields[${target}]`] = display.name
  }
  return query
}
