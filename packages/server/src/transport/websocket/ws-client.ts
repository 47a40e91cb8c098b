/** The library's client, which the command line uses. Apart, so that declarations for applications need no types of the library. */
export { WebSocket as WebSocketClient } from 'ws';
