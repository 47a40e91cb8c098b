import type { ExplainedField, Explanation } from '@parlance/protocol/inspect';

/** An explanation for programs: everything but the bytes, which may hold credentials. */
export function explanationJson({ bytes: _, fields, ...explanation }: Explanation): object {
  return { ...explanation, fields: fields.map(fieldJson) };
}

function fieldJson({ bytes, children, ...field }: ExplainedField): object {
  return {
    ...field,
    ...(bytes !== undefined && { standsForBytes: bytes.length }),
    ...(children.length > 0 && { children: children.map(fieldJson) }),
  };
}
