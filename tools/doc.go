// Package tools pins what is used to check this project and is no part of it; its
// test reads the expressions of alerts and of the dashboard as Prometheus does.
package tools
