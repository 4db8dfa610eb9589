# Checks the operators against the values in sjepa/symbolic/functions.py.
# Run with: julia julia/sjepa_julia/runtests.jl
using Test

include("operators.jl")

const EPS = 1e-3
const CLIP = 20.0

@testset "values" begin
    @test safe_div(3.0, 2.0) == 1.5
    @test safe_div(3.0, -2.0) == -1.5
    @test safe_div(3.0, 0.0) == 0.0
    @test safe_div(3.0, EPS / 2) ≈ 3.0 * (EPS / 2) / EPS^2
    @test safe_div(2.0, EPS) ≈ 2.0 / EPS
    @test exp_clip(1.0) == exp(1.0)
    @test exp_clip(1e6) == exp(CLIP)
    @test exp_clip(-1e6) == exp(-CLIP)
    @test log_safe(2.0) == log(2.0)
    @test log_safe(-2.0) == log(2.0)
    @test log_safe(0.0) == log(EPS)
    @test sqrt_safe(4.0) == 2.0
    @test sqrt_safe(-4.0) == 2.0
    @test sqrt_safe(0.0) == 0.0
    @test sqrt_safe(EPS^2 / 4) ≈ EPS / 4
    @test heaviside(2.0) == 1.0
    @test heaviside(-2.0) == 0.0
    @test heaviside(0.0) == 0.5
    @test heaviside(0.0, 1.0) == 1.0
end

# SymbolicRegression.jl refuses operators that change the number type or throw on the real line.
@testset "type stability for $T" for T in (Float16, Float32, Float64)
    edges = T[0, -0.0, 1, -1, 100, -100, T(EPS), -T(EPS), T(EPS) / 2, T(EPS)^2]
    for f in (exp_clip, log_safe, sqrt_safe, heaviside)
        @test Base.return_types(f, (T,)) == [T]
        @test all(x -> f(x) isa T, edges)
    end
    @test Base.return_types(safe_div, (T, T)) == [T]
    @test all(safe_div(x, y) isa T for x in edges, y in edges)
end

@testset "finite at the edges for $T" for T in (Float32, Float64)
    edges = T[0, 1, -1, 100, -100, T(EPS), -T(EPS), nextfloat(zero(T)), 1e10, -1e10]
    for f in (exp_clip, log_safe, sqrt_safe, heaviside)
        @test all(isfinite ∘ f, edges)
    end
    @test all(isfinite(safe_div(x, y)) for x in edges, y in edges)
end
