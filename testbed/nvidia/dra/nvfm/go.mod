// Stands in for github.com/NVIDIA/go-nvfm, which no module proxy has.
module github.com/NVIDIA/go-nvfm

go 1.26.0
