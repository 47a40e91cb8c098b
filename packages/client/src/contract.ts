export * from '@parlance/protocol/contract';
export { events } from './session/events/module.js';
