/** What a client of a durable session needs, which is loaded when a server agrees on one. */

export { DurableClientChannel } from './client-channel.js';
