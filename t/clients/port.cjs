// For suites that only know port 11300: loaded before them (node --require), it sends their
// connections to the port in BEANSTALK_PORT. Connections to other ports stay as they are.
"use strict";

const net = require("net");
const connect = net.Socket.prototype.connect;

net.Socket.prototype.connect = function (...given) {
    // net.connect passes what it was given as an array in an array.
    const [first] = Array.isArray(given[0]) ? given[0] : given;
    if (first !== null && typeof first === "object" && Number(first.port) === 11300) {
        first.port = Number(process.env.BEANSTALK_PORT);
    } else if (Number(first) === 11300) {
        given[0] = Number(process.env.BEANSTALK_PORT);
    }
    return connect.apply(this, given);
};
