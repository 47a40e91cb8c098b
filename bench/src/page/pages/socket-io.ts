import { io } from 'socket.io-client';
import { server, show } from './shown.js';

const socket = io(server, { transports: ['websocket'] });
socket.on('message', show);
socket.emit('message', 'hello');
