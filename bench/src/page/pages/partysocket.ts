import { PartySocket } from 'partysocket';
import { server, show } from './shown.js';

const socket = new PartySocket({ host: server, room: 'chat' });
socket.onmessage = ({ data }) => show(data);
socket.send('hello');
