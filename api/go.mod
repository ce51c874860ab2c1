module github.com/windlass-go/windlass/api

go 1.26.0

require github.com/windlass-go/windlass v0.0.0

require (
	github.com/danielgtaylor/huma/v2 v2.37.2
	go.uber.org/goleak v1.3.0
	golang.org/x/sync v0.24.0
	golang.org/x/time v0.15.0
)

require (
	github.com/google/uuid v1.6.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/windlass-go/windlass => ../
