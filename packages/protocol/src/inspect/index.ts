/** Explains frames byte by byte, for tools. */

export { type LoadableCodec, loadCodecs } from '../codec/load.js';
export {
  type ConnectionEvent,
  type FrameEvent,
  type InspectionEvent,
  type RecordedField,
  type RecordedSelection,
  type ReplayEvent,
  SCHEMA_VERSION,
  type StateEvent,
} from './events/event.js';
export { MAX_LINE, parseEvent } from './events/parse.js';
export { recordedFields } from './events/recorded.js';
export {
  type CodedSelection,
  createRecorder,
  type Recorder,
  type RecorderOptions,
} from './events/recorder.js';
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
