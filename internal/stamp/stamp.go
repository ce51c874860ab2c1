// Package stamp has the version that the linker was told, for programs that the Go
// toolchain cannot stamp by itself: a container image is built without the repository,
// and an archive on a commit that may have no tag. tools/dist and
// deploy/container/Containerfile set both by -ldflags=-X. They are empty in every other
// program, where debug.ReadBuildInfo has what Go recorded.
package stamp

var (
	// Version is like v0.1.0.
	Version string
	// Revision is the commit.
	Revision string
)
