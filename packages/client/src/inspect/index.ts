/** `@parlance/client/inspect`: records what a session sends and receives, and reads such records. */

export {
  type CodedSelection,
  type ConnectionEvent,
  createRecorder,
  type Direction,
  type ExplainedFault,
  type ExplainedField,
  type ExplainedKind,
  type Explanation,
  type FrameEvent,
  type InspectionEvent,
  type LoadableCodec,
  loadCodecs,
  MAX_LINE,
  parseEvent,
  type RecordedField,
  type RecordedSelection,
  type Recorder,
  type RecorderOptions,
  type ReplayEvent,
  SCHEMA_VERSION,
  type StateEvent,
} from '@parlance/protocol/inspect';
export { type SocketWatcher, watchSockets } from './socket.js';
export { tap } from './tap.js';
