// Package deploy has what Windlass is packaged with: the file of a container image,
// units of systemd and a Helm chart. Its tests hold none of our code but the timing
// of sessions: they see that every flag and variable that is used here exists in the
// built program, and that what a node needs to leave in good order is there.
//
// The chart itself is checked by deploy/helm/check, which needs Helm: what it renders
// is kept in helm/rendered, and read here.
package deploy
