// Package tools pins the tools that check this project and are not part of it. Its test
// parses the expressions of alerts and of the dashboard as Prometheus does.
package tools
