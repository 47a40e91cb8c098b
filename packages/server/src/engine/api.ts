/** `@parlance/server/engine`: for those who write an engine. See docs/ENGINES.md. */

export * from './copy.js';
export * from './engine.js';
export * from './logs/logs.js';
export type * from './logs/reply.js';
export { READ_PARTS } from './logs/reply.js';
export type * from './store.js';
