/** Explains frames byte by byte, for tools. */

export type {
  ExplainedFault,
  ExplainedField,
  ExplainedKind,
  ExplainOptions,
  Explanation,
} from './explanation.js';
export { explainFrame } from './frame.js';
export { createSessionExplainer, type Direction, type SessionExplainer } from './session.js';
export { printable } from './wording.js';
