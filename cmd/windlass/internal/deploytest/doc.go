// Package deploytest tests tools/dist, and the packaging in the folder deploy: the file of
// a container image, units of systemd and a Helm chart. The tests check that every flag
// and variable used there exists in the program, and that everything is there that a
// node needs to leave in good order.
//
// deploy/helm/check checks the chart itself and needs Helm: its output is kept in
// deploy/helm/rendered, and read here.
package deploytest
