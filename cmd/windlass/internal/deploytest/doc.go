// Package deploytest has the tests of what Windlass is packaged with, in the folder deploy:
// the file of a container image, units of systemd and a Helm chart. They see that every flag
// and variable that is used there exists in the program, and that what a node needs to leave
// in good order is there.
//
// The chart itself is checked by deploy/helm/check, which needs Helm: what it renders is kept
// in deploy/helm/rendered, and read here.
package deploytest
