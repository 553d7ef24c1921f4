/** The OpenAPI document -> the types, with their attributes, relationships and filters. */

import { MEDIA_TYPE } from "./api.js"
import { texts } from "./texts.js"

/** @import { Identifier } from "./api.js" */
/** @import { App } from "./app.js" */

/** @typedef {"text" | "email" | "choice" | "boolean" | "integer" | "decimal" | "date" | "time"} Kind */
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
 * @property {(name: string) => boolean} canSort
 * @property {boolean} writable
 */
/**
 * @typedef {object} Description
 * @property {string} title
 * @property {Map<string, Type>} types
 * @property {boolean} requiresTokens
 */

const AUTHORSHIP = ["created_at", "created_by", "updated_at", "updated_by"]

/**
 * Return what the page needs to know of an OpenAPI document.
 * @param {any} openapi
 * @returns {Description}
 */
export function describe(openapi) {
  const { paths, components, info } = openapi
  const names = Object.keys(paths).filter((path) => /^\/[^/]+$/.test(path))
  const types = names.flatMap((path) => typeAt(path, openapi) ?? [])
  const order = openapi.tags.map((/** @type {{ name: string }} */ tag) => tag.name)
  const rank = (/** @type {Type} */ type) => {
    const tag = paths[type.path].get.tags[0]
    return (type.writable ? 0 : order.length) + order.indexOf(tag)
  }
  types.sort((one, other) => rank(one) - rank(other))
  return {
    title: info.title,
    types: new Map(types.map((type) => [type.name, type])),
    requiresTokens: "securitySchemes" in components,
  }
}

/**
 * Return the type whose collection has a path; null for other paths.
 * @param {string} path
 * @param {any} openapi
 * @returns {Type | null}
 */
function typeAt(path, openapi) {
  /** @type {(schema: any) => any} */
  const resolve = (schema) => {
    if (!schema?.$ref) return schema
    const steps = schema.$ref.split("/").slice(1)
    return steps.reduce(
      (/** @type {any} */ part, /** @type {string} */ step) => part[step],
      openapi,
    )
  }
  const { get, post } = openapi.paths[path]
  const content = get?.responses["200"].content ?? {}
  const resource = resolve(resolve(content[MEDIA_TYPE]?.schema)?.properties.data?.items)
  if (!resource) return null
  const sent = post && resolve(post.requestBody.content[MEDIA_TYPE].schema).properties.data
  const created = sent && resolve(sent).properties
  const linkable = resolve(created?.relationships)?.properties ?? {}
  const readable = Object.entries(resource.properties.attributes.properties)
  const all = readable.map(([name, schema]) => attributeOf(name, schema, created?.attributes))
  const attributes = all.filter((one) => !AUTHORSHIP.includes(one.name))
  const links = Object.entries(resource.properties.relationships?.properties ?? {})
  const name = resource.properties.type.enum[0]
  const sort = new RegExp(parameter(get, "sort").schema.pattern)
  return {
    name,
    path,
    label: labelOf(name),
    plural: labelOf(path.slice(1)),
    attributes,
    authorship: all.filter((one) => AUTHORSHIP.includes(one.name)),
    relationships: links.map(([link, schema]) => {
      const data = resolve(/** @type {any} */ (schema).properties.data)
      const target = resolve(data.items ?? data).properties.type.enum[0]
      const { "x-inverse": inverse } = /** @type {any} */ (schema)
      const [many, writable] = [Boolean(data.items), link in linkable]
      return { name: link, label: labelOf(link), target, inverse, many, writable }
    }),
    display:
      attributes.find((one) => one.kind === "text" && one.readOnly && !one.nullable) ??
      attributes.find((one) => one.kind === "text" && one.required) ??
      attributes.find((one) => one.kind === "text" && !one.readOnly),
    filters: get.parameters.flatMap(filterOf),
    canSort: (field) => sort.test(field),
    writable: Boolean(post),
  }
}

/**
 * @param {any} operation
 * @param {string} name
 */
function parameter(operation, name) {
  return operation.parameters.find((/** @type {{ name: string }} */ one) => one.name === name)
}

/**
 * @param {string} name
 * @param {any} schema
 * @param {any} creation the schema of the attributes in requests that create a resource
 * @returns {Attribute}
 */
function attributeOf(name, schema, creation) {
  return {
    name,
    label: labelOf(name),
    description: schema.description ?? "",
    kind: kindOf(schema),
    choices: (schema.enum ?? []).filter((/** @type {unknown} */ one) => one !== null),
    nullable: Boolean(schema.nullable),
    required: Boolean(creation?.required?.includes(name)),
    readOnly: Boolean(schema.readOnly),
    unique: Boolean(schema["x-unique"]),
    default: creation?.properties[name]?.default ?? null,
    maxLength: schema.maxLength,
    copiedFrom: schema["x-copied-from"],
  }
}

/**
 * Return the filters of a query parameter; none if it is not one by a field.
 * @param {any} parameter
 * @returns {Filter[]}
 */
function filterOf(parameter) {
  const name = /^filter\[([^\]]+)\]$/.exec(parameter.name)?.[1]
  if (!name || !parameter["x-operators"]) return []
  const items = parameter.schema.items
  const schema = { nullable: Boolean(items.anyOf), ...(items.anyOf?.[0] ?? items) }
  const value = attributeOf(name, schema, null)
  return [{ name, label: labelOf(name), operators: parameter["x-operators"], value }]
}

/**
 * @param {any} schema
 * @returns {Kind}
 */
function kindOf(schema) {
  if (schema.enum) return "choice"
  if (schema.type !== "string") return schema.type
  if (schema.format === "date-time") return "time"
  if (schema.format === "date" || schema.format === "email") return schema.format
  return schema.pattern ? "decimal" : "text"
}

/**
 * Return a name as people write it: `owner.first_name` is `Owner: first name`.
 * @param {string} name
 */
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
  const name = type.display && resource.attributes?.[type.display.name]
  return name || texts.numbered(type.label, resource.id)
}

/**
 * Return the query parameters that read the names of linked resources along.
 * @param {App} app
 * @param {Type} type
 * @param {string[]} fields further fields of the type
 */
export function fieldsWithNames(app, type, fields) {
  const links = app.links(type, false)
  const own = [...new Set([type.display?.name, ...fields, ...links.map((one) => one.name)])]
  /** @type {Record<string, string>} */
  const query = { [`fields[${type.name}]`]: own.filter(Boolean).join(",") }
  if (links.length > 0) query.include = links.map((one) => one.name).join(",")
  for (const { target } of links) {
    const { display } = app.typeOf(target)
    if (display && target !== type.name) query[`fields[${target}]`] = display.name
  }
  return query
}

/**
 * Return the attribute that has the name that a linked resource had when a period ended.
 * @param {Type} type
 * @param {Relationship} link
 */
export function copyOf(type, link) {
  return type.attributes.find((one) => one.copiedFrom === link.name)
}
